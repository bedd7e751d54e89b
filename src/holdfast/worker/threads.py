"""Threads for plain functions. They end with the program: one that never returns must not keep a worker that
was told to stop from ending, which the standard library's executor would wait for.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any


class JobThreads:
    """At most `limit` threads, started when all others are busy. Called from one thread only."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._work.put((future, function))
        if not self._idle.acquire(blocking=False) and self._count < self._limit:
            self._count += 1
            threading.Thread(target=self._serve, name=f"holdfast-job-{self._count}", daemon=True).start()
        return future

    def close(self) -> None:
        """What has not begun never will; what runs is left alone."""
        with suppress(Empty):
            while work := self._work.get_nowait():
                work[0].cancel()
        for _ in range(self._count):
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            future, function = work
            if future.set_running_or_notify_cancel():
                _settle(future, function)
            # What it returned must not live on while this thread waits.
            del work, future, function
            self._idle.release()


def _settle(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        result = function()
    except (StopIteration, GeneratorExit) as error:
        # No coroutine can be made to raise them, so whoever awaits this would never be told.
        told = RuntimeError(f"the handler raised {type(error).__name__}")
        told.__cause__ = error
        future.set_exception(told)
    except BaseException as error:  # noqa: BLE001  # it belongs to whoever waits
        future.set_exception(error)
    else:
        future.set_result(result)
