"""How a handler is called: awaited, in a thread, or in a child process that can be killed."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from holdfast.worker.claimed_run import ClaimedRun
from holdfast.worker.context import Context
from holdfast.worker.job_threads import JobThreads


class Caller(Protocol):
    def call(self, claimed: ClaimedRun, context: Context, arguments: dict[str, Any]) -> Awaitable[Any]:
        """Call the handler and return what it returned. Cancelled when the run is told to stop."""

    def left_behind(self, claimed: ClaimedRun) -> "Future[Any] | None":
        """The thread that goes on after its call was cut short, if any. Asked once, after the call. Its slot
        is free when it ends. It may have ended by now, and have done its work.
        """


class Coroutines:
    """Awaits the handler in the attempt's own task."""

    @staticmethod
    def call(claimed: ClaimedRun, context: Context, arguments: dict[str, Any]) -> Awaitable[Any]:
        kind = claimed.kind
        awaitable: Awaitable[Any] = (
            kind.function(context, **arguments)
            if kind.signature.takes_context
            else kind.function(**arguments)
        )
        return awaitable

    @staticmethod
    def left_behind(claimed: ClaimedRun) -> Future[Any] | None:  # noqa: ARG004  # a task always ends with its call
        return None


class Threads:
    """Calls plain functions in threads. Nothing can stop a thread: the function reads `ctx.is_cancelled`, or
    runs to its end, and keeps its slot until then.
    """

    def __init__(self, threads: JobThreads) -> None:
        self._threads = threads
        self._futures: dict[int, Future[Any]] = {}

    async def call(self, claimed: ClaimedRun, context: Context, arguments: dict[str, Any]) -> Any:
        function = claimed.kind.function
        positional = (context,) if claimed.kind.signature.takes_context else ()
        variables = contextvars.copy_context()
        call = partial(variables.run, function, *positional, **arguments)
        # The thread checks the lease itself: it may have taken a while until one was free.
        future = self._threads.submit(partial(_in_time, claimed, call))
        self._futures[claimed.run] = future
        return await come_to(await asyncio.wrap_future(future))

    def left_behind(self, claimed: ClaimedRun) -> Future[Any] | None:
        future = self._futures.pop(claimed.run, None)
        is_whole = future is not None and future.done() and claimed.stop is None
        return None if is_whole else future


def _in_time(claimed: ClaimedRun, call: Callable[[], Any]) -> Any:
    claimed.check_lease()
    return call()


async def come_to(result: Any) -> Any:
    """The result of a plain function. One that returns a coroutine, such as a decorator's, has only begun."""
    check_has_run(result)
    return await result if inspect.isawaitable(result) else result


def check_has_run(result: Any) -> None:
    """A generator that was returned has done nothing yet: it must not count as a success."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(f"it returned {result!r}, of which nothing has run: a job returns, or is awaited")
