"""Threads for plain functions. They are daemon threads: a function that never returns must not keep a worker
from ending. The standard library's executor would wait for it.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from holdfast.worker import django_connections, forked_copy

# How long a thread without a job lives, and with it what libraries keep for each thread, such as connections.
IDLE_SECONDS = 20.0

_Work = tuple[Future[Any], Callable[[], Any]]
_Desk = SimpleQueue[_Work]


class JobThreads:
    """At most `limit` threads, started when all others are busy. The thread that was used last gets the next
    call, so that threads in excess become idle and end.
    """

    def __init__(self, limit: int, *, idle: float = IDLE_SECONDS) -> None:
        self._limit = limit
        self._idle_seconds = idle
        self._lock = threading.Lock()
        self._waiting: deque[_Work] = deque()
        self._idle: list[_Desk] = []
        self._count = 0
        self._number = 0
        self._is_closed = False

    @property
    def count(self) -> int:
        return self._count

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        work = future, function
        with self._lock:
            if self._idle:
                self._idle.pop().put(work)
            elif self._count < self._limit:
                self._count += 1
                self._number += 1
                name = f"holdfast-job-{self._number}"
                # Passed through its queue: a thread keeps its own arguments until it ends.
                desk: _Desk = SimpleQueue()
                desk.put(work)
                threading.Thread(target=self._serve, args=(desk,), name=name, daemon=True).start()
            else:
                self._waiting.append(work)
        return future

    def close(self) -> list[Future[Any]]:
        """Calls that have not begun are cancelled; running ones go on. Each idle thread ends after one last
        call, which closes the connections that Django keeps for it. Returns the futures of these calls.
        """
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = self._waiting, deque()
            idle, self._idle = self._idle, []
        for future, _ in waiting:
            future.cancel()
        last: list[Future[Any]] = [Future() for _ in idle]
        for desk, future in zip(idle, last, strict=True):
            desk.put((future, django_connections.close_all))
        return last

    def _serve(self, desk: _Desk) -> None:
        work: _Work | None = desk.get()
        while work is not None:
            future, function = work
            if future.set_running_or_notify_cancel():
                _settle(future, function)
            # Do not keep the result alive while this thread waits.
            del work, future, function
            work = self._next(desk) or self._leave()

    def _next(self, desk: _Desk) -> _Work | None:
        """The next call; None if this thread has to end."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._is_closed:
                return None
            self._idle.append(desk)
        try:
            return desk.get(timeout=self._idle_seconds)
        except Empty:
            with self._lock:
                if desk in self._idle:
                    self._idle.remove(desk)
                    return None
            return desk.get()  # it was given a call just now

    def _leave(self) -> _Work | None:
        """This thread counts until its connections are closed: a thread in its place would otherwise exceed
        `limit`. A call that was submitted in the meantime is run here.
        """
        django_connections.close_all()
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._count -= 1
            return None


def _settle(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        with django_connections.fresh():
            result = function()
        if forked_copy.is_copy:
            forked_copy.leave(None)
    except (StopIteration, GeneratorExit) as error:
        # A coroutine cannot raise these, so the task that awaits this future would never hear of it.
        told = RuntimeError(f"the handler raised {type(error).__name__}")
        told.__cause__ = error
        future.set_exception(told)
    except BaseException as error:  # noqa: BLE001  # it belongs to the task that waits
        if forked_copy.is_copy:
            forked_copy.leave(error)
        future.set_exception(error)
    else:
        future.set_result(result)
