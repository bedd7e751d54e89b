"""One call of a plain function in a thread, and how its end comes to the task that awaits it."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

# A thread reports its ended calls when it has this many, even if it goes straight on to the next call: the
# event loop can then settle them meanwhile.
_MANY = 32

_settling = threading.Lock()


class ThreadCall:
    """Its end is awaited in `answer`, or is that of `future`. A call that is awaited gets a `future` only
    when its run is cut short: making one for every call would take longer than many calls do.
    """

    __slots__ = ("answer", "error", "function", "future", "is_over", "result")

    def __init__(
        self,
        function: Callable[[], Any],
        answer: "asyncio.Future[Any] | None" = None,
        future: "Future[Any] | None" = None,
    ) -> None:
        self.function = function
        self.answer = answer
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_over = False

    def may_begin(self) -> bool:
        return self.future is None or self.future.set_running_or_notify_cancel()

    def cancel(self) -> None:
        """It has not begun, and never will."""
        if self.future is not None:
            self.future.cancel()
        if self.answer is not None:
            self.answer.cancel()

    def end(self, result: Any, error: BaseException | None) -> None:
        """In its thread. `is_over` goes before the look at `future`, as `left_behind` looks the other way
        round: one of the two sees what the other has done.
        """
        self.result, self.error = result, error
        self.is_over = True
        if self.future is not None:
            self._settle(self.future)

    def answer_now(self) -> None:
        """On the event loop. A task that was cancelled does not wait any more."""
        answer = self.answer
        if answer is not None and not answer.done():
            if self.error is None:
                answer.set_result(self.result)
            else:
                answer.set_exception(self.error)

    def left_behind(self) -> "Future[Any]":
        """What goes on in its thread, or has ended there meanwhile."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self.future = future
        if self.is_over:
            self._settle(future)
        return future

    def _settle(self, future: "Future[Any]") -> None:
        with _settling:
            if future.done():
                return
            if self.error is None:
                future.set_result(self.result)
            else:
                future.set_exception(self.error)


class ThreadAnswers:
    """Brings the ends of calls from their threads to the event loop, many with one wake-up: each costs a
    system call here, another one there, and both threads the interpreter's lock.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over: deque[ThreadCall] = deque()
        self._is_told = False

    def put(self, call: ThreadCall) -> None:
        """In a thread, which has to call `tell` before it waits or begins what may block."""
        self._over.append(call)
        if len(self._over) >= _MANY:
            self.tell()

    def tell(self) -> None:
        if self._over and not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.answer)

    def answer(self) -> None:
        """On the event loop."""
        # Before the first is taken: what comes later is told again.
        self._is_told = False
        over = self._over
        while over:
            over.popleft().answer_now()
