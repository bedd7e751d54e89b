"""The `Flow` that a flow's function gets: steps whose results are stored, waits that hold no worker."""

from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, TypeVarTuple, overload
from uuid import UUID, uuid4

from holdfast.domain.duration import Length, duration
from holdfast.domain.flow_path import full_name
from holdfast.domain.job import check_ids, check_key, check_length
from holdfast.domain.retry import Retry
from holdfast.errors import InvalidInput
from holdfast.flows.child_jobs import ChildJob, check_job, result_of
from holdfast.flows.events import Event, payload_of
from holdfast.flows.gather import Failures, gather
from holdfast.flows.replay import Replay
from holdfast.flows.shared_limits import check_child
from holdfast.flows.step_replay import do_step, draw
from holdfast.flows.step_runner import StepRunner, check_function
from holdfast.flows.step_transaction import StepTransaction
from holdfast.flows.step_values import Typed, returned_by
from holdfast.postgres.database import Database
from holdfast.worker.context import Context

if TYPE_CHECKING:
    import logging

    import psycopg

    from holdfast.handle import Handle
    from holdfast.job import Job, Using
    from holdfast.worker.context import JobFacts

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
Ts = TypeVarTuple("Ts")

Raised = Literal["raise", "cancel"]

_MOMENT = Typed.of(datetime)
_UUID = Typed.of(UUID)
_FLAG = Typed.of(bool)


class Flow:
    """One run of a flow. Every step has a name; its result is stored, and then it never runs again."""

    def __init__(self, context: Context, replay: Replay, *, steps: StepRunner, handlers: Database) -> None:
        self._context = context
        self._replay = replay
        self._steps = steps
        self._handlers = handlers

    @property
    def job(self) -> "JobFacts":
        """The flow's own job, as it was enqueued."""
        return self._context.job

    @property
    def attempt(self) -> int:
        """The number of this attempt since the flow last waited; the first is 1."""
        return self._context.attempt

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose records carry job, run and attempt."""
        return self._context.log

    def progress(self, value: float | None = None, note: str | None = None, **facts: object) -> None:
        """Report progress: cheap, and not a step."""
        self._context.progress(value, note, **facts)

    @overload
    async def step(
        self,
        name: str,
        function: Callable[[*Ts], Coroutine[Any, Any, R]],
        /,
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: Length | None = None,  # noqa: ASYNC109  # a length that is kept with the step
        isolate: Literal["process"] | None = None,
        is_new: bool = False,
    ) -> R: ...
    @overload
    async def step(
        self,
        name: str,
        function: Callable[P, Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...
    @overload
    async def step(
        self,
        name: str,
        function: Callable[[*Ts], R],
        /,
        *args: *Ts,
        key: object = None,
        retry: Retry | None = None,
        timeout: Length | None = None,  # noqa: ASYNC109  # a length that is kept with the step
        isolate: Literal["process"] | None = None,
        is_new: bool = False,
    ) -> R: ...
    @overload
    async def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def step(  # type: ignore[misc]  # mypy does not see that *args takes *Ts
        self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Run a function once and store its result: a coroutine function, or a plain one in a thread.

        A step that a crash interrupts runs again; one that is done never does. `key` tells the turns of a
        loop apart. `retry` tries this step again by itself, and holds no worker in between; without it a
        failure is the flow's. `isolate="process"` runs it in a child process, which its timeout kills.
        `is_new` says that the step was added in front of steps that flows under way have done.
        StepFailed when it has failed for good.
        """
        return await do_step(self._replay, self._steps, name, function, *args, **kwargs)

    async def sleep(self, name: str, length: Length, *, key: object = None) -> None:
        """Continue after this time, by the database's clock, counted from when the flow first got here."""
        delay = duration(length, name="sleep")
        check_length("sleep", delay)
        full, replay = full_name(name, key), self._replay
        record, place = await replay.arrive(full, "sleep")
        if record is None or not record.is_done:
            await replay.wait_until_over(replay.wait(full, "sleep", place, delay=max(delay, timedelta())))

    @overload
    async def wait_event(
        self,
        event: str,
        *,
        type: type[T],
        timeout: Length | None = None,  # noqa: ASYNC109  # a length that is kept with the wait
        key: object = None,
    ) -> T: ...
    @overload
    async def wait_event(
        self,
        event: str,
        *,
        type: None = None,
        timeout: Length | None = None,  # noqa: ASYNC109  # a length that is kept with the wait
        key: object = None,
    ) -> Any: ...
    async def wait_event(
        self,
        event: str,
        *,
        type: Any = None,  # noqa: A002  # what it is
        timeout: Length | None = None,  # noqa: ASYNC109  # a length that is kept with the wait
        key: object = None,
    ) -> Any:
        """The payload of the next event with this key: one that waits already, or one to come, as `type`.

        EventTimeout when none has come in time. `key` tells several waits for the same event apart.
        """
        check_key(event, what="event")
        typed = Typed.of(Any if type is None else type)
        return await self._payload(event, full_name(event, key), typed, timeout)

    async def wait(
        self,
        event: Event[T],
        key: object,
        *,
        timeout: Length | None = None,  # noqa: ASYNC109  # a length that is kept with the wait
        name: str | None = None,
    ) -> T:
        """The payload of the next event that is emitted under this key: one that waits already, or one to
        come.

        EventTimeout when none has come in time. `name` tells several waits for the same event and key apart.
        """
        if not isinstance(event, Event):
            raise InvalidInput(
                f"flow.wait is given {event!r}: give an event that app.event(name, type) has made; "
                "flow.wait_event takes a plain key"
            )
        full = event.full_key(key)
        payload: T = await self._payload(full, full_name(name or full), event.typed, timeout)
        return payload

    async def _payload(self, event: str, name: str, typed: Typed, timeout: Length | None) -> Any:  # noqa: ASYNC109
        limit = None if timeout is None else duration(timeout, name="timeout")
        check_length("timeout", limit)
        return await payload_of(self._replay, self.log, event, name, typed=typed, limit=limit)

    def call(self, job: "Job[P, R] | Using[P, R]", /, *args: P.args, **kwargs: P.kwargs) -> ChildJob[R]:
        """A child: a job, or another flow, that starts when you await this, alone or in `gather`."""
        check_job(job)
        call = job.call(*args, **kwargs)
        if call.job.limits:
            claimed = self._replay.claimed
            check_child(claimed.kind, claimed.row.args, call.kind, call.job.limits)
        return ChildJob(self._replay, call.kind, call.job)

    @overload
    async def wait_job(self, job: "Handle[R]", *, type: None = None, name: str | None = None) -> R: ...
    @overload
    async def wait_job(self, job: "Handle[Any] | int", *, type: type[T], name: str | None = None) -> T: ...
    @overload
    async def wait_job(self, job: int, *, type: None = None, name: str | None = None) -> Any: ...
    async def wait_job(
        self,
        job: "Handle[Any] | int",
        *,
        type: Any = None,  # noqa: A002  # what it is
        name: str | None = None,
    ) -> Any:
        """The result of a job that was enqueued elsewhere, known by its handle or its id: as `type`, or else
        as the handle knows it, or as plain JSON.
        """
        child = job.id if hasattr(job, "id") else job
        check_ids([child])
        if child == self._replay.fence.job:
            raise InvalidInput(f"flow {child} cannot wait for itself: give flow.wait_job another job")
        typed = None if type is None else Typed.of(type)
        signature = getattr(job, "_signature", None)
        full = full_name(name or f"job {child}")
        return await result_of(self._replay, child, full, typed=typed, signature=signature)

    @overload
    async def gather(
        self, one: Awaitable[T], two: Awaitable[T2], /, *, failures: Raised = "raise"
    ) -> tuple[T, T2]: ...
    @overload
    async def gather(
        self, one: Awaitable[T], two: Awaitable[T2], three: Awaitable[T3], /, *, failures: Raised = "raise"
    ) -> tuple[T, T2, T3]: ...
    @overload
    async def gather(self, *branches: Awaitable[T], failures: Raised = "raise") -> list[T]: ...
    @overload
    async def gather(self, *branches: Awaitable[T], failures: Literal["return"]) -> list[T | Exception]: ...
    async def gather(self, *branches: Awaitable[Any], failures: Failures = "raise") -> Any:
        """Run several at once: children, started in bulk, and steps or waits. Returns their results in order.

        `failures`: "raise" waits for all of them and raises the first failure, "cancel" stops the others with
        the first, "return" gives failures in place of results.
        """
        return await gather(self._replay, branches, failures)

    @overload
    def transaction(
        self, name: str, /, *, key: object = None, conn: object = None, is_new: bool = False
    ) -> StepTransaction: ...
    @overload
    def transaction(
        self,
        name: str,
        function: "Callable[Concatenate[psycopg.AsyncConnection[Any], P], Awaitable[R]]",
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Awaitable[R]: ...
    def transaction(
        self,
        name: str,
        function: Callable[..., Awaitable[Any]] | None = None,
        /,
        *args: Any,
        key: object = None,
        conn: object = None,
        is_new: Any = False,
        **kwargs: Any,
    ) -> Any:
        """Your own writes and this step's checkpoint in one commit: both, or neither, and once.

        `await flow.transaction("book", function, …)` calls it with a connection as its first argument and
        keeps what it gives. `async with flow.transaction("book") as conn:` gives the connection, or None when
        an earlier run has committed it: then nothing is left to do. `conn`: your own session or connection.
        StepFailed when it has failed, with the error as its cause: nothing was written.
        """
        transaction = StepTransaction(self._replay, full_name(name, key), self._handlers, conn, is_new=is_new)
        if function is None:
            return transaction
        check_function(f'transaction "{name}"', function)
        return transaction.of(function, returned_by(function), *args, **kwargs)

    async def now(self, name: str = "now", *, key: object = None) -> datetime:
        """The time by the database's clock, the same in every run."""
        claimed = self._replay.claimed
        moment = claimed.row.started_at + claimed.took
        drawn: datetime = await draw(
            self._replay, full_name(name, key), "now", _MOMENT, moment.astimezone(UTC)
        )
        return drawn

    async def uuid(self, name: str = "uuid", *, key: object = None) -> UUID:
        """A random identifier, the same in every run, for example as the idempotency key of a payment."""
        drawn: UUID = await draw(self._replay, full_name(name, key), "uuid", _UUID, uuid4())
        return drawn

    async def version(self, name: str) -> bool:
        """Whether this flow takes the path of this change: True for one that has not been past this point
        when the change was deployed, False for one that has, for all of its life.
        """
        is_past = self._replay.path.is_past(self._replay.lane)
        drawn: bool = await draw(self._replay, full_name(name), "version", _FLAG, not is_past)
        return drawn
