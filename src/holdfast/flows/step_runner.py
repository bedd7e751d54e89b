"""How a step's function is run, and what follows when it fails."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

from holdfast.domain.duration import LONGEST, compact, duration
from holdfast.domain.failure import Failure, recorded_error
from holdfast.domain.flow_path import Recorded
from holdfast.domain.retry import Retry
from holdfast.errors import InvalidInput, StepFailed, TransactionEnded
from holdfast.worker.callers import come_to
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.handler_requests import Fail, RetryLater, reason_of, retried_after
from holdfast.worker.job_threads import JobThreads

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class StepTimeout(TimeoutError):
    holdfast_code = "timeout"


Isolated = Callable[[Callable[..., Any], dict[str, Any], Callable[[], None]], Awaitable[Any]]
"""Takes a function, its arguments, and what to call when a child begins to run it."""
Around = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Takes a step's name and what runs it."""


async def _nowhere(
    function: Callable[..., Any],
    arguments: dict[str, Any],  # noqa: ARG001  # as Isolated
    on_begun: Callable[[], None],  # noqa: ARG001
) -> Any:
    raise InvalidInput(f"{function!r} cannot run in a child process here: give it a job of its own")


class StepRunner:
    """Runs the functions of one run's steps: awaited, in a thread, or in a child process. A thread cannot be
    stopped: one that outlives its step keeps the run's slot until it ends. A child process is killed.
    """

    def __init__(
        self,
        threads: JobThreads,
        check_lease: Callable[[], None],
        isolated: Isolated = _nowhere,
        around: Around | None = None,
    ) -> None:
        """`check_lease` raises when nothing may begin any more. `around` is the middleware of a step, by its
        name.
        """
        self._threads = threads
        self._around = around
        self._check_lease = check_lease
        self._isolated = isolated
        self._running: set[Future[Any]] = set()

    async def within(self, step: str, run: Callable[[], Awaitable[Any]]) -> Any:
        """Run a step inside of its middleware."""
        return await (run() if self._around is None else self._around(step, run))

    async def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        timeout: timedelta | None,  # noqa: ASYNC109  # a length that the step was given
        *,
        is_isolated: bool = False,
    ) -> Any:
        self._check_lease()
        seconds = None if timeout is None else timeout.total_seconds()
        if seconds is None and not is_isolated:
            return await self._call(function, args, kwargs)
        limit = asyncio.timeout(None if is_isolated else seconds)

        def begun() -> None:
            """Neither the wait for a child nor its start is a part of the step's time."""
            if seconds is not None:
                limit.reschedule(asyncio.get_running_loop().time() + seconds)

        try:
            async with limit:
                if is_isolated:
                    return await self._in_process(function, args, kwargs, begun)
                return await self._call(function, args, kwargs)
        except TimeoutError as error:
            if limit.expired() and timeout is not None:
                raise StepTimeout(f"took longer than its timeout of {compact(timeout)}") from error
            raise

    async def _call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        if _is_awaited(function):
            return await function(*args, **kwargs)
        return await self._in_thread(partial(function, *args, **kwargs))

    async def _in_process(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        begun: Callable[[], None],
    ) -> Any:
        """With its arguments by name, as a child process gets them."""
        try:
            signature = inspect.signature(function)
            bound = signature.bind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{function!r} does not take these arguments: {error}") from error
        for parameter in signature.parameters.values():
            if parameter.kind not in _NAMED:
                raise InvalidInput(
                    f"{function!r} has a parameter {parameter}, which cannot be passed by a name of its own: "
                    'isolate="process" needs named ones'
                )
        return await self._isolated(function, dict(bound.arguments), begun)

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        future = self._threads.submit(partial(contextvars.copy_context().run, self._in_time, function))
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return await come_to(await asyncio.wrap_future(future))

    def _in_time(self, function: Callable[[], Any]) -> Any:
        """In the thread: it may have been a while until one was free."""
        self._check_lease()
        return function()

    @property
    def outlived(self) -> "Future[Any] | None":
        """What cannot be stopped and still runs."""
        return next((future for future in self._running if not future.done()), None)


def _is_awaited(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = function.func
    called = getattr(function, "__call__", None)  # noqa: B004  # an object's own may be a coroutine function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def check_function(what: str, function: object) -> None:
    """It is called by the step, when that is to run: what was called before it would run in every replay."""
    if inspect.iscoroutine(function):
        function.close()
        raise InvalidInput(
            f"{what} is given {function.__name__}(…), which is already called: give the function, and its "
            f"arguments after it: {function.__name__}, …"
        )
    if not callable(function) or hasattr(function, "enqueue"):
        raise InvalidInput(
            f"{what} is given {function!r}: give a function, and its arguments after it; jobs go to flow.call"
        )


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What a step was asked for beyond the arguments of its function."""

    key: object = None
    retry: Retry | None = None
    timeout: timedelta | None = None
    is_isolated: bool = False
    is_new: bool = False

    @classmethod
    def taken_from(cls, function: Callable[..., Any], kwargs: dict[str, Any]) -> "StepOptions":
        """Takes them out of the keyword arguments. One that the function has as a parameter, too, would be
        taken from it in silence, and is refused.
        """
        if not kwargs:
            return _NONE
        given = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
        for name in given.keys() & _parameters(function):
            raise InvalidInput(
                f"{name}=… is an option of the step and a parameter of {function!r}: "
                f"give functools.partial(function, {name}=…) for the latter"
            )
        retry, timeout = given.get("retry"), given.get("timeout")
        if retry is not None and not isinstance(retry, Retry):
            raise InvalidInput(f"retry is {retry!r}: give a Retry(max_attempts=…)")
        limit = None if timeout is None else duration(timeout, name="timeout")
        isolate = given.get("isolate")
        if isolate not in (None, "process"):
            raise InvalidInput(f'isolate is {isolate!r}: give "process", or leave it out')
        is_new = given.get("is_new", False)
        if not isinstance(is_new, bool):
            raise InvalidInput(f"is_new is {is_new!r}: give True or False")
        return cls(given.get("key"), retry, limit, isolate == "process", is_new)


_OPTIONS = ("key", "retry", "timeout", "isolate", "is_new")
_NONE = StepOptions()


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    try:
        return _read_parameters(function)
    except (TypeError, ValueError):
        return frozenset()


@lru_cache(maxsize=4_096)
def _read_parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


@dataclass(frozen=True, slots=True)
class Again:
    """Try it once more, after a delay."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Final:
    """Keep the error: it is the step's end."""


@dataclass(frozen=True, slots=True)
class Open:
    """The flow decides: if it catches the error, that is stored; if it does not, the step runs again."""


def after_failure(retry: Retry | None, failures: int, error: Exception, luck: float) -> Again | Final | Open:
    """What follows from the n-th failure of a step."""
    if isinstance(error, (Fail, TransactionEnded)):
        return Final()
    asked = retried_after(error) if isinstance(error, RetryLater) else None
    if retry is None:
        return Open() if asked is None else Again(asked)
    if failures >= retry.max_attempts or not (isinstance(error, RetryLater) or retry.is_retryable(error)):
        return Final()
    delay = asked if isinstance(error, RetryLater) else retry.chosen_delay(failures, error)
    delay = retry.stored.delay(failures, luck) if delay is None else delay
    return Again(min(max(delay, timedelta()), LONGEST))


def kept_failure(record: Recorded) -> StepFailed:
    """What a replay raises: the class that was raised when it failed."""
    failed = StepFailed(record.name, recorded_error(record.error))
    failed.is_kept = True
    return failed


def failure_of(error: Exception) -> Failure:
    if isinstance(error, (Fail, RetryLater)):
        return Failure(reason_of(error), "handler_error", type(error).__name__)
    return from_error(error, getattr(error, "holdfast_code", "handler_error"))
