"""Threads for plain functions. They are daemon threads: a function that never returns must not keep a worker
from ending. The standard library's executor would wait for it.

Waking a thread costs more than most calls of a function that returns at once, so threads take their next call
themselves. While calls wait, exactly one more thread is on its way. If the function before returns at once,
its thread has taken the next call before the other one gets the interpreter's lock. If it blocks, the other
one takes it, and sends for the next thread first. So no call waits for another to end while a thread is left.

While calls take a few milliseconds at most, as many may wait as run: half as many threads are woken. Whoever
lets them wait calls `look_in` every now and then, so that none waits for long.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import Any

from holdfast.worker import django_connections, forked_copy
from holdfast.worker.thread_call import ThreadAnswers, ThreadCall

# How long a thread without a job lives, and with it what libraries keep for each thread, such as connections.
IDLE_SECONDS = 20.0
# A call that takes less may make another one wait. What calls take is judged by the latest of them; as long
# as nothing is known, it takes some forty short ones.
_SHORT_SECONDS = 0.005
_WEIGHT = 1 / 8
_AT_FIRST = 1.0


class _Desk:
    """Where a thread waits. `last` is the call that ends it."""

    __slots__ = ("bell", "last")

    def __init__(self) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()
        self.last: Future[Any] | None = None


class JobThreads:
    """At most `limit` threads, started when all others are busy. The thread that was used last is woken
    first, so that threads in excess become idle and end.
    """

    def __init__(self, limit: int, *, idle: float = IDLE_SECONDS) -> None:
        self._limit = limit
        self._idle_seconds = idle
        self._lock = threading.Lock()
        self._waiting: deque[ThreadCall] = deque()
        self._idle: list[_Desk] = []
        # Whether a thread is on its way to what waits: sent for, and not yet there.
        self._is_one_coming = False
        self._answers: ThreadAnswers | None = None
        # Written by all threads, without a lock: what is lost of it does no harm.
        self._usual = _AT_FIRST
        self._begun = 0
        self._looked = (0, 0)
        self._count = 0
        self._number = 0
        self._is_closed = False

    @property
    def count(self) -> int:
        return self._count

    def allow(self, more: int, *, most: int) -> None:
        """So many threads more, but no more than `most` in all."""
        with self._lock:
            self._limit = max(self._limit, min(self._limit + more, most))
        self._send_for_one()

    def answer_to(self, answers: ThreadAnswers) -> None:
        """Report calls that end to `answers`, which brings them to the event loop."""
        self._answers = answers

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """For a caller without an event loop, or one that needs a future of its own."""
        future: Future[Any] = Future()
        self._begin(ThreadCall(function, future=future), is_patient=False)
        return future

    def begin(self, call: ThreadCall) -> None:
        """For a caller that calls `look_in` while calls wait."""
        self._begin(call, is_patient=True)

    def _begin(self, call: ThreadCall, *, is_patient: bool) -> None:
        self._waiting.append(call)
        if not self._is_one_coming and not (is_patient and self._may_wait()):
            try:
                self._send_for_one()
            except BaseException:
                self.take_back(call)
                raise

    def look_in(self) -> bool:
        """Send for more threads if calls wait that were waiting at the last look. Returns whether to look
        again.
        """
        begun, waited = self._looked
        self._looked = self._begun, len(self._waiting)
        if waited and self._begun - begun < waited:
            self._usual = _AT_FIRST
            self._send_for_one()
        return bool(self._waiting)

    def _may_wait(self) -> bool:
        """Whether the calls that wait may wait for those that run."""
        is_short = self._usual < _SHORT_SECONDS
        return is_short and len(self._waiting) <= self._count - len(self._idle)

    def take_back(self, call: ThreadCall) -> bool:
        """Whether it had not begun, and never will."""
        try:
            self._waiting.remove(call)
        except ValueError:
            return False
        return True

    def close(self) -> list[Future[Any]]:
        """Calls that have not begun are cancelled; running ones go on. Each idle thread ends after one last
        call, which closes the connections that Django keeps for it. Returns the futures of these calls.
        """
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        with suppress(IndexError):
            while True:
                self._waiting.popleft().cancel()
        for desk in idle:
            desk.last = Future()
            desk.bell.release()
        return [desk.last for desk in idle if desk.last is not None]

    def _send_for_one(self) -> None:
        """Wake a thread or start one. If all are busy, the first that ends its call takes the next."""
        with self._lock:
            if self._is_one_coming or not self._waiting:
                return
            if self._idle:
                self._is_one_coming = True
                self._idle.pop().bell.release()
                return
            if self._count >= self._limit:
                return
            self._is_one_coming = True
            self._count += 1
            self._number += 1
            name = f"holdfast-job-{self._number}"
        try:
            threading.Thread(target=self._serve, args=(_Desk(),), name=name, daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._is_one_coming = False
                self._count -= 1
                if not self._count:
                    raise

    def _serve(self, desk: _Desk) -> None:
        while True:
            # Before the first look: what is put later sends for the next thread.
            self._is_one_coming = False
            self._work()
            if not self._wait(desk) and self._has_left(desk):
                return

    def _work(self) -> None:
        """Run calls until none waits."""
        waiting = self._waiting
        while True:
            try:
                call = waiting.popleft()
            except IndexError:
                return
            self._begun += 1
            if waiting and not self._is_one_coming and not self._may_wait():
                self._send_for_one()
            if not self._is_one_coming and not (waiting and self._may_wait()):
                # This call may block, and no thread is on its way to report the calls that ended before. (If
                # others may wait for it, `look_in` is called, and the ends are looked for with them.)
                self._tell()
            if call.may_begin():
                began = monotonic()
                _run(call)
                self._usual += (monotonic() - began - self._usual) * _WEIGHT
                if self._answers is not None and call.answer is not None:
                    self._answers.put(call)
            del call  # its result must not live on while this thread waits

    def _tell(self) -> None:
        if self._answers is not None:
            self._answers.tell()

    def _wait(self, desk: _Desk) -> bool:
        """Until there is something to do. False if this thread has to end."""
        self._tell()
        with self._lock:
            if self._waiting:
                return True
            if self._is_closed:
                return False
            self._idle.append(desk)
        if desk.bell.acquire(timeout=self._idle_seconds):
            return desk.last is None
        with self._lock:
            if desk in self._idle:
                self._idle.remove(desk)
                return False
        desk.bell.acquire()  # it was sent for just now
        return desk.last is None

    def _has_left(self, desk: _Desk) -> bool:
        """This thread counts until its connections are closed: a thread in its place would otherwise exceed
        `limit`. A call that came in the meantime is run here.
        """
        django_connections.close_all()
        if desk.last is not None:
            desk.last.set_result(None)
        with self._lock:
            if self._waiting:
                return False
            self._count -= 1
            return True


def _run(call: ThreadCall) -> None:
    try:
        with django_connections.fresh():
            result = call.function()
        if forked_copy.is_copy:
            forked_copy.leave(None)
    except (StopIteration, GeneratorExit) as error:
        # A coroutine cannot raise these, so the task that awaits this call would never hear of it.
        told = RuntimeError(f"the handler raised {type(error).__name__}")
        told.__cause__ = error
        call.end(None, told)
    except BaseException as error:  # noqa: BLE001  # it belongs to the task that waits
        if forked_copy.is_copy:
            forked_copy.leave(error)
        call.end(None, error)
    else:
        call.end(result, None)
