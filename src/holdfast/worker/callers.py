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
        """Call the handler; awaited, it gives what that returned. Cancelled when the run is told to stop."""

    def left_behind(self, claimed: ClaimedRun) -> "Future[Any] | None":
        """What a call that was cut short has left behind, asked for once, after the call. It cannot be
        stopped: its slot is not free before it ends. It may have ended by now, and have done its work.
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
    """Calls plain functions in threads. Nobody can stop a thread: it sees `ctx.is_cancelled`, or runs to its
    end, and keeps its slot until then.
    """

    def __init__(self, threads: JobThreads) -> None:
        self._threads = threads
        self._futures: dict[int, Future[Any]] = {}

    async def call(self, claimed: ClaimedRun, context: Context, arguments: dict[str, Any]) -> Any:
        function = claimed.kind.function
        positional = (context,) if claimed.kind.signature.takes_context else ()
        variables = contextvars.copy_context()
        call = partial(variables.run, function, *positional, **arguments)
        # Looked at by the thread itself: it may have been a while until one was free.
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
    """What a plain function has come to. One around a coroutine, such as a decorator's, has only begun."""
    check_has_run(result)
    return await result if inspect.isawaitable(result) else result


def check_has_run(result: Any) -> None:
    """A success would say that the work is done."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(f"it returned {result!r}, of which nothing has run: a job returns, or is awaited")
