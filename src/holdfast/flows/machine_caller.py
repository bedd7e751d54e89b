"""Calls a state machine: reads its current step, runs it, and moves on to the step that it returns."""

from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec import structs

from holdfast.domain.backoff import to_json
from holdfast.domain.outcome import Failed, Unreadable
from holdfast.errors import InvalidInput, Undecodable
from holdfast.flows.machine import Done, Next, Step
from holdfast.flows.machine_signature import MachineSignature, StepKind, stored_step
from holdfast.flows.recorder import AWAY, lost
from holdfast.flows.step_runner import StepRunner
from holdfast.flows.suspension import Interrupted
from holdfast.flows.wait_descriptions import moment
from holdfast.postgres.batcher import Batcher
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.producer.notifier import Notifier
from holdfast.producer.wake_ups import LEADER
from holdfast.storage.flows import Fence
from holdfast.storage.machines import Move, Moved, StoredStep, load_steps, move
from holdfast.worker.claimed_run import ClaimedRun, CommittedEnd
from holdfast.worker.context import Context
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.handler_requests import EndWith, Snooze
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.middleware import step_within

_NO_TRANSACTION = (
    "ctx.transaction() completes a job, but a machine's step ends by what it returns: commit a transaction "
    "of your own that may come twice, or write a flow with flow.transaction(…)"
)


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The step that a machine is at: decoded, with its fields as stored and its number in the history."""

    kind: StepKind
    step: Step
    fields: str
    place: int


class MachineCaller:
    """A Caller like those for coroutines and threads."""

    def __init__(self, database: Database, schema: Schema, threads: JobThreads, notifier: Notifier) -> None:
        self._database = database
        self._schema = schema
        self._threads = threads
        self._notifier = notifier
        self._steps: dict[int, StepRunner] = {}
        self._loads = Batcher(self._load_all)
        self._moves = Batcher(self._move_all)

    async def call(self, claimed: ClaimedRun, context: Context, arguments: dict[str, Any]) -> Any:
        signature = claimed.kind.signature
        assert isinstance(signature, MachineSignature), "app.machine makes it"  # noqa: S101  # a mistake of ours
        try:
            current = await self._current_step(claimed, signature, arguments["first"])
            _go_by(claimed, current)
            answer = await self._run(claimed, context, current)
            match answer:
                case Done(result):
                    return result
                case Next():
                    await self._go_on(claimed, current, _move(claimed, signature, current, answer))
                    return None
        except Interrupted as error:
            raise error.request from error
        except InvalidInput as error:
            # Another attempt would raise the same error.
            raise _for_good(error) from error
        raise _for_good(
            TypeError(
                f"{signature.name}.{current.kind.name}.run() returned {answer!r}: return Next(…) or Done(…)"
            )
        )

    def left_behind(self, claimed: ClaimedRun) -> Future[Any] | None:
        return self._steps.pop(claimed.run).outlived if claimed.run in self._steps else None

    async def _current_step(
        self, claimed: ClaimedRun, signature: MachineSignature, first: str
    ) -> CurrentStep:
        try:
            stored = await self._loads.put(claimed.job)
        except AWAY as error:
            raise Interrupted(error) from error
        try:
            name, fields = signature.first(first) if stored is None else (stored.name, stored.fields)
            kind = signature.kind_named(name, fields)
            return CurrentStep(kind, kind.decode(fields), fields, 1 if stored is None else stored.place)
        except Undecodable as error:
            raise EndWith(Unreadable(from_error(error, "decode_error"))) from error

    async def _run(self, claimed: ClaimedRun, context: Context, current: CurrentStep) -> Any:
        steps = self._steps[claimed.run] = StepRunner(self._threads, claimed.check_lease)
        claimed.no_transaction = _NO_TRANSACTION
        step = current.step
        args = (context,) if current.kind.takes_context else ()
        run: Any = step.run  # type: ignore[attr-defined]  # it was looked for when the machine was registered
        running = partial(steps.run, run, args, {}, step.__step_policy__.timeout)
        return await step_within(claimed.kind.middleware.stepping, context, current.kind.name, running)

    async def _go_on(self, claimed: ClaimedRun, current: CurrentStep, asked: Move) -> None:
        # From before the lease goes until it is known whether it went: its absence is then no sign of a loss.
        claimed.is_completing = True
        try:
            answer = await self._moves.put(asked)
        except AWAY as error:
            claimed.is_completing = False
            raise Interrupted(error) from error
        except BaseException:
            claimed.is_completing = False
            raise
        if answer == "moved":
            # The attempt has ended by our own commit; what it came to is in the ledger.
            waiting = next_step = None
            if asked.delay:
                until = moment(claimed.row.started_at + claimed.took, asked.delay)
                waiting = f"until {until} ({asked.next_name})"
            else:
                next_step = asked.next_name
            claimed.committed = CommittedEnd("snoozed", waiting=waiting, next_step=next_step)
            self._notifier.tell({LEADER if asked.delay else claimed.queue})
            return
        claimed.is_completing = False
        if answer == "stop":
            # A cancel request or the deadline has stopped the move. Settling a snooze turns it into that end.
            raise Snooze(timedelta())
        raise lost(asked.fence, f'go on from "{current.kind.name}" to "{asked.next_name}"')

    async def _load_all(self, jobs: list[int]) -> list[StoredStep | None]:
        rows = await self._database.run(load_steps(self._schema, sorted(set(jobs))))
        by_job = {row.job: row for row in rows}
        return [by_job.get(job) for job in jobs]

    async def _move_all(self, moves: list[Move]) -> list[str]:
        rows: list[Moved] = await self._database.run(move(self._schema, moves))
        by_run = {row.run: row.answer for row in rows}
        return [by_run[each.fence.run] for each in moves]


def _go_by(claimed: ClaimedRun, current: CurrentStep) -> None:
    """From here on the step's own policy, if it has one, decides on retries, and the log names the step."""
    retry = current.step.__step_policy__.retry
    # The arguments are those of the step that runs now: what is secret in them is masked in its errors.
    row, kind = (
        structs.replace(claimed.row, args=stored_step(current.kind.name, current.fields)),
        claimed.kind,
    )
    if retry is not None:
        backoff = None if callable(retry.backoff) else to_json(retry.stored)
        row, kind = (
            structs.replace(row, max_attempts=retry.max_attempts, backoff=backoff),
            replace(kind, retry=retry),
        )
    claimed.go_by(row, kind, current.kind.name)


def _move(claimed: ClaimedRun, signature: MachineSignature, current: CurrentStep, answer: Next) -> Move:
    """Raises InvalidInput if the next step cannot be stored."""
    kind = signature.kind_of(answer.step)
    fence = Fence(claimed.worker, claimed.job, claimed.run)
    return Move(
        fence,
        current.kind.name,
        current.place,
        current.fields,
        kind.name,
        kind.encode(answer.step),
        answer.delay,
    )


def _for_good(error: Exception) -> EndWith:
    return EndWith(Failed(from_error(error), is_retryable=False))
