"""How a handler is called: awaited, in a thread, or in a child process that can be killed."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import Any, Protocol

from holdfast.worker.claimed_run import ClaimedRun
from holdfast.worker.context import Context
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.thread_call import ThreadAnswers, ThreadCall


class Caller(Protocol):
    def call(self, claimed: ClaimedRun, context: Context, arguments: dict[str, Any]) -> Awaitable[Any]:
        """Call the handler and return what it returned. Cancelled when the run has to stop."""

    def left_behind(self, claimed: ClaimedRun) -> "Future[Any] | None":
        """The thread that still runs after its call was cut short, if any. Asked once, after the call. Its
        slot is free when it ends. It may have ended by now, with its work done.
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


# How often calls that wait for a thread are looked at: none waits for much longer while a thread is left.
_LOOK_SECONDS = 0.005


class Threads:
    """Calls plain functions in threads. Nothing can stop a thread: the function reads `ctx.is_cancelled`, or
    runs to its end, and keeps its slot until then.
    """

    def __init__(self, threads: JobThreads) -> None:
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, ThreadCall] = {}
        self._answers = ThreadAnswers()
        self._look: asyncio.TimerHandle | None = None
        threads.answer_to(self._answers)

    async def call(self, claimed: ClaimedRun, context: Context, arguments: dict[str, Any]) -> Any:
        kind = claimed.kind
        function = partial(kind.function, context) if kind.signature.takes_context else kind.function
        # The thread checks the lease itself: it may have taken a while until one was free.
        answer = self._loop.create_future()
        call = ThreadCall(
            partial(contextvars.copy_context().run, _in_time, claimed, function, arguments), answer
        )
        self._calls[claimed.run] = call
        self._threads.begin(call)
        if self._look is None:
            self._look = self._loop.call_later(_LOOK_SECONDS, self._look_in)
        try:
            result = await answer
        except asyncio.CancelledError:
            if self._threads.take_back(call):
                del self._calls[claimed.run]
            raise
        return None if result is None else await come_to(result)

    def _look_in(self) -> None:
        self._look = None
        self._answers.answer()
        if self._threads.look_in():
            self._look = self._loop.call_later(_LOOK_SECONDS, self._look_in)

    def left_behind(self, claimed: ClaimedRun) -> Future[Any] | None:
        call = self._calls.pop(claimed.run, None)
        if call is None or (call.is_over and claimed.stop is None):
            return None
        return call.left_behind()


def _in_time(claimed: ClaimedRun, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    claimed.check_lease()
    if not claimed.inside:
        return function(**arguments)
    result = None
    with ExitStack() as stack:
        for manager in claimed.inside:
            stack.enter_context(manager)
        result = function(**arguments)
    return result  # noqa: RET504  # unless one of them has swallowed an error


async def come_to(result: Any) -> Any:
    """The result of a plain function. One that returns a coroutine, such as a decorator's, has only begun."""
    check_has_run(result)
    return await result if inspect.isawaitable(result) else result


def check_has_run(result: Any) -> None:
    """A generator that was returned has done nothing yet: it must not count as a success."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(f"it returned {result!r}, of which nothing has run: a job returns, or is awaited")
