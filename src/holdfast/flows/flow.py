"""What a flow's function is given: steps that are kept, waits that hold no worker."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, TypeVarTuple, overload
from uuid import UUID, uuid4

from holdfast.domain.duration import duration
from holdfast.domain.failure import Failure
from holdfast.domain.flow import Path, Recorded, full_name
from holdfast.domain.job import check_ids, check_key, check_length
from holdfast.domain.retry import Retry
from holdfast.errors import ChildFailed, ConnectionLost, EventTimeout, InvalidInput, LeaseLost, StepFailed
from holdfast.flows.booking import Booking
from holdfast.flows.branches import Answers, Branches, here
from holdfast.flows.calling import Child, change_of, name_all, outcome_of
from holdfast.flows.ends import Interrupted, Suspended
from holdfast.flows.inside import inside, step_around
from holdfast.flows.recorder import Recorder
from holdfast.flows.steps import (
    Again,
    Final,
    Open,
    StepOptions,
    Steps,
    after_failure,
    failure_of,
    kept_failure,
)
from holdfast.flows.values import Typed, Unkeepable, returned_by
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.flows import Fence, Wait, WaitKind, Writing
from holdfast.worker.asks import CameTo, Cancel, Snooze
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
Ts = TypeVarTuple("Ts")

Length = str | timedelta
Failures = Literal["raise", "cancel", "return"]

_SETTLE_SECONDS = 0.05
_MOMENT = Typed.of(datetime)
_UUID = Typed.of(UUID)
_FLAG = Typed.of(bool)


class Flow:
    """One run of a flow. Whatever it does goes by a name, is kept when it is done, and is not done again."""

    def __init__(
        self,
        context: Context,
        *,
        recorder: Recorder,
        handlers: Database,
        steps: Steps,
        path: Path,
        code: int | None,
    ) -> None:
        held = context._held  # noqa: SLF001  # a flow is the context of its run
        self._context = context
        self._held = held
        self._recorder = recorder
        self._handlers = handlers
        self._steps = steps
        self._path = path
        self._task = asyncio.current_task()
        self._unkept: list[Writing] = []
        self._end: Suspended | None = None
        self.code = code
        self.fence = Fence(held.worker, held.job, held.run)

    @property
    def schema(self) -> Schema:
        return self._recorder.schema

    @property
    def job(self) -> "JobFacts":
        """The flow's own job: what was asked for."""
        return self._context.job

    @property
    def attempt(self) -> int:
        """Which try this is since the flow last waited; the first is 1."""
        return self._context.attempt

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose records carry job, run and attempt."""
        return self._context.log

    def progress(self, value: float | None = None, note: str | None = None, **facts: object) -> None:
        """Say how far the flow has come: cheap, and no step."""
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
    ) -> R: ...
    @overload
    async def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def step(  # type: ignore[misc]  # mypy does not see that *args takes *Ts
        self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Run a function once and keep what it gives: a coroutine function, or a plain one in a thread.

        A step that a crash interrupts runs again; one that is done never does. `key` tells the turns of a
        loop apart. `retry` tries this step again by itself, and holds no worker in between; without it a
        failure is the flow's. `isolate="process"` runs it in a child process, which its timeout kills.
        StepFailed when it has failed for good.
        """
        options = StepOptions.taken_from(function, kwargs)
        full = full_name(name, options.key)
        record, place = await self._arrive(full, "step")
        typed = returned_by(function)
        if record is not None and record.is_done:
            return self._kept(record, typed)
        failures = record.failures if record is not None else 0
        if record is not None and record.left_to_wait:
            await self._pause(full, record.left_to_wait, failures, record.error, place)
        try:
            with inside(self, full):
                value = await self._steps.run(
                    function, args, kwargs, options.timeout, is_isolated=options.is_isolated
                )
            text = typed.encode(f'what step "{full}" gave', value)
        except (LeaseLost, Cancel, CameTo):
            raise
        except Snooze as wish:
            await self._pause(full, wish.delay, failures, None, place)
        except Unkeepable as error:
            # Never by the step's own retry: it has done its work, and would only do it again.
            await self._failed(full, "step", error, failures=failures + 1, place=place)
        except Exception as error:  # noqa: BLE001  # it is kept, or raised to the flow
            self._path.check()
            await self._failed(full, "step", error, retry=options.retry, failures=failures + 1, place=place)
        else:
            await self._keep(full, "step", text, place, failures=failures)
            return value
        raise AssertionError("unreachable: a pause and a failure end the run, or raise")

    async def sleep(self, name: str, length: Length, *, key: object = None) -> None:
        """Go on after this time, by the database's clock, from the first time that it was asked for."""
        delay = duration(length, name="sleep")
        check_length("sleep", delay)
        full = full_name(name, key)
        record, place = await self._arrive(full, "sleep")
        if record is None or not record.is_done:
            await self._wait_until_over(self._wait(full, "sleep", place, delay=max(delay, timedelta())))

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
        limit = None if timeout is None else duration(timeout, name="timeout")
        check_length("timeout", limit)
        full = full_name(event, key)
        typed = Typed.of(Any if type is None else type)
        record, place = await self._arrive(full, "event")
        if record is not None and record.is_done:
            text, is_late = record.value, record.error is not None
        else:
            answer = await self._wait_until_over(self._wait(full, "event", place, delay=limit, key=event))
            text, is_late = answer.value, answer.status == "late"
        if is_late:
            raise EventTimeout(event)
        return typed.decode(f'the payload of event "{event}"', text)

    def call(self, job: "Job[P, R] | Using[P, R]", /, *args: P.args, **kwargs: P.kwargs) -> Child[R]:
        """A child: a job, or another flow, that begins when this is awaited, alone or in `gather`."""
        call = job.call(*args, **kwargs)
        return Child(self, call.kind.name, call.kind.signature, call.job)

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
        typed = None if type is None else Typed.of(type)
        full = full_name(name or f"job {child}")
        record, place = await self._arrive(full, "call")
        if record is None:
            await self._recorder.adopt(self.fence, child, full, place=place, code=self.code)
            # A settle of that job that is under way does not know of us yet: it is committed by then. Should
            # it take longer, the leader's sweep finds its end.
            await asyncio.sleep(_SETTLE_SECONDS)
        elif record.child != child:
            raise self._path.diverged(f'"{full}" was recorded as job {record.child}, and is job {child} now')
        if record is None or not record.is_done:
            await self._wait_until_over(self._wait(full, "call", place))
            record = (await self._records())[full]
        if typed is not None and record.error is None:
            return typed.decode(f"the result of job {child}", record.value)
        signature = getattr(job, "_signature", None)
        return _or_raise(outcome_of(record, signature))

    async def gather(self, *branches: Awaitable[Any], failures: Failures = "raise") -> list[Any]:
        """Several at once: children, begun in bulk, and steps or waits. Their results, in this order.

        `failures`: "raise" waits for all of them and raises the first failure, "cancel" stops the others with
        the first, "return" gives failures in place of results.
        """
        if failures not in ("raise", "cancel", "return"):
            raise InvalidInput(f'failures is {failures!r}: give "raise", "cancel" or "return"')
        children = [branch for branch in branches if isinstance(branch, Child)]
        others = [branch for branch in branches if not isinstance(branch, Child)]
        is_eager = failures == "cancel"
        if not others:
            results = await self._children(children, is_eager=is_eager)
        else:
            turns = [_awaited(other) for other in others]
            if children:
                turns.insert(0, self._children(children, is_eager=is_eager))
            ended = await Branches(self._wait_for).run(turns, is_eager=is_eager)
            results = _in_order(branches, ended)
        for result in results:
            # What ends the run goes first, whatever else has happened.
            if isinstance(result, BaseException) and not isinstance(result, Exception):
                raise result
        for result in results:
            if isinstance(result, BaseException) and failures != "return":
                raise result
        return results

    @overload
    def transaction(self, name: str, /, *, key: object = None, conn: object = None) -> Booking: ...
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
        **kwargs: Any,
    ) -> Any:
        """Your own writes and this step's checkpoint in one commit: both, or neither, and once.

        `await flow.transaction("book", function, …)` calls it with a connection as its first argument and
        keeps what it gives. `async with flow.transaction("book") as conn:` gives the connection, or None when
        an earlier run has committed it: then nothing is left to do. `conn`: your own session or connection.
        StepFailed when it has failed, with the error as its cause: nothing was written.
        """
        booking = Booking(self, full_name(name, key), self._handlers, conn)
        if function is None:
            return booking
        return booking.of(function, returned_by(function), *args, **kwargs)

    async def now(self, name: str = "now", *, key: object = None) -> datetime:
        """The time by the database's clock, the same in every run."""
        since = timedelta(seconds=monotonic() - self._held.began)
        moment: datetime = await self._drawn(
            full_name(name, key), "now", _MOMENT, (self._held.row.started_at + since).astimezone(UTC)
        )
        return moment

    async def uuid(self, name: str = "uuid", *, key: object = None) -> UUID:
        """A random identifier, the same in every run: such as a key that makes a payment idempotent."""
        drawn: UUID = await self._drawn(full_name(name, key), "uuid", _UUID, uuid4())
        return drawn

    async def version(self, name: str) -> bool:
        """Whether this flow takes the path of this change: True for one that has not been past this point
        when the change was deployed, False for one that has, for all of its life.
        """
        is_new: bool = await self._drawn(full_name(name), "version", _FLAG, None)
        return is_new

    async def _drawn(self, name: str, kind: str, typed: Typed, value: Any) -> Any:
        is_new = not self._path.is_replaying
        record, place = await self._arrive(name, kind)
        if record is not None and record.is_done:
            return typed.decode(f'"{name}"', record.value)
        value = is_new if kind == "version" else value
        await self._keep(name, kind, typed.encode(f'"{name}"', value), place)
        return value

    async def _child(self, child: Child[R]) -> R:
        [result] = await self._children([child], is_eager=False)
        given: R = _or_raise(result)
        return given

    async def _children(self, children: list[Child[Any]], *, is_eager: bool) -> list[Any]:
        names = name_all(children)
        arrived = [await self._arrive(name, "call", is_alone=len(children) == 1) for name in names]
        records = {record.name: record for record, _ in arrived if record is not None}
        for name, child in zip(names, children, strict=True):
            if name in records:
                self._check_the_same(records[name], name, child)
        new = [(name, child.job) for name, child in zip(names, children, strict=True) if name not in records]
        if new:
            await self._recorder.call(self.fence, new, bunch=names[0], place=arrived[0][1], code=self.code)
        if new or not all(records[name].is_done for name in names):
            await self._wait_until_over(self._wait(names[0], "call", None, is_eager=is_eager))
            records = await self._records()
        left = [record.child for name in names if not (record := records[name]).is_done and record.child]
        if left:
            await self._recorder.cancel(left, "another child of its flow has failed")
        ended = [
            (records[name], child)
            for name, child in zip(names, children, strict=True)
            if records[name].is_done
        ]
        outcomes = [outcome_of(record, child.signature) for record, child in ended]
        return list(map(_or_raise, outcomes)) if left or is_eager else outcomes

    def _check_the_same(self, record: Recorded, name: str, child: Child[Any]) -> None:
        if change := change_of(record, name, child, is_same_code=record.code == self.code):
            raise self._path.diverged(change)

    async def _records(self) -> dict[str, Recorded]:
        return {record.name: record for record in await self._recorder.load(self.fence.job)}

    async def _arrive(
        self, name: str, kind: str, *, is_alone: bool = True
    ) -> tuple[Recorded | None, int | None]:
        """At the next thing to do: what is known of it, and its place in the path."""
        if self._end is not None:
            raise self._end
        self._path.check()
        if (step := step_around(self)) is not None:
            raise self._path.refused(InvalidInput(_nested(name, step)))
        await self._keep_failures()
        is_main = is_alone and here() is None and asyncio.current_task() is self._task
        return self._path.arrive(name, kind, is_main=is_main)

    async def _keep(
        self, name: str, kind: str, value: str | None, place: int | None, *, failures: int = 0
    ) -> None:
        await self._recorder.write(
            Writing(self.fence, name, kind, value, failures=failures, place=place, code=self.code)
        )

    async def _keep_failures(self) -> None:
        """The flow goes on after a step has failed: from now on that is its way, and not tried again."""
        while self._unkept:
            writing = self._unkept.pop(0)
            await self._recorder.write(writing)
            if writing.kind == "transaction" and (await self._records())[writing.name].error is None:
                # Its commit has taken place, and only the answer was lost: the next run knows.
                raise Interrupted(ConnectionLost(f'"{writing.name}" was committed, and its answer lost'))

    def _kept(self, record: Recorded, typed: Typed) -> Any:
        if record.error is not None:
            raise kept_failure(record)
        return typed.decode(f'what step "{record.name}" gave', record.value)

    async def _failed(
        self,
        name: str,
        kind: str,
        error: Exception,
        *,
        retry: Retry | None = None,
        failures: int = 1,
        place: int | None,
    ) -> None:
        """Raises StepFailed, unless the step is to be tried again: then this is the end of the run."""
        failure: Failure = failure_of(error)
        writing = Writing(
            self.fence, name, kind, None, failure.to_json(), failures=failures, place=place, code=self.code
        )
        failed = StepFailed(name, json.loads(failure.to_json()))
        match after_failure(retry, failures, error, random.random()):  # noqa: S311  # spreads load
            case Again(delay):
                await self._pause(name, delay, failures, failure.to_json(), place)
            case Open():
                self._unkept.append(writing)
            case Final():
                await self._recorder.write(writing)
                failed.is_kept = True
        raise failed from error

    async def _pause(
        self, name: str, delay: timedelta, failures: int, error: str | None, place: int | None
    ) -> None:
        """Until the step is tried again, in another run."""
        wait = self._wait(name, "retry", place, delay=delay)
        while True:
            await self._wait_for([wait._replace(failures=failures, error=error)])

    def _wait(
        self,
        name: str,
        kind: WaitKind,
        place: int | None,
        *,
        delay: timedelta | None = None,
        key: str | None = None,
        is_eager: bool = False,
    ) -> Wait:
        return Wait(self.fence, name, kind, delay, key=key, is_eager=is_eager, place=place, code=self.code)

    async def _wait_until_over(self, wait: Wait) -> Any:
        while (answer := (await self._wait_for([wait]))[wait.name]).status == "open":
            pass
        return answer

    async def _wait_for(self, waits: list[Wait]) -> Answers:
        """Until one of these is over, or it is time to leave: in a branch together with the others."""
        if (branches := here()) is not None and asyncio.current_task() is not self._task:
            return await branches.block(waits)
        self._path.check()
        await self._keep_failures()
        # From before the lease goes until it is known whether it went: its absence is then no sign of a loss.
        self._held.is_completing = True
        try:
            answers = await self._recorder.wait(waits)
        except BaseException:
            self._held.is_completing = False
            raise
        statuses = {answer.status for answer in answers}
        if "waiting" in statuses:
            outcome = "retried" if any(wait.error for wait in waits) else "snoozed"
            self._end = Suspended(is_settled=True, outcome=outcome)
            raise self._end
        self._held.is_completing = False
        if "stop" in statuses:
            self._end = Suspended(is_settled=False)
            raise self._end
        return {answer.name: answer for answer in answers}


def _nested(name: str, step: str) -> str:
    return (
        f'"{name}" is inside of "{step}": a step runs as a whole, and anew when it was interrupted, so '
        "nothing in it can be kept or waited for by itself. Let the step return, and do this "
        "in the flow's own function"
    )


async def _awaited(branch: Awaitable[T]) -> T:
    return await branch


def _or_raise(outcome: Any) -> Any:
    if isinstance(outcome, ChildFailed):
        raise outcome
    return outcome


def _in_order(branches: tuple[Awaitable[Any], ...], ended: list[Any]) -> list[Any]:
    """Children were one branch, the first: back to where each of them was given."""
    left = list(ended)
    together: list[Any] = []
    if any(isinstance(branch, Child) for branch in branches):
        first = left.pop(0)
        count = sum(isinstance(branch, Child) for branch in branches)
        together = [first] * count if isinstance(first, BaseException) else list(first)
    return [(together if isinstance(branch, Child) else left).pop(0) for branch in branches]
