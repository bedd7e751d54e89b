"""Flows: their checkpoints, fenced like every write of a run; their waits, and what ends them.

docs/explanation/flows.md explains the protocol. In short: facts (an event, the end of a child) leave a
wake-up in their own transaction and lock nothing; who waits and who wakes lock the key first, and look in a
new statement.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from holdfast.domain.flow_path import Recorded
from holdfast.domain.job import NewJob, check_ids, check_key, check_length
from holdfast.domain.json_text import flaw
from holdfast.domain.retention import EVENTS, Retention
from holdfast.errors import InvalidInput
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.arrays import number_array, text_array
from holdfast.storage.groups import count_ends
from holdfast.storage.jobs import job_columns
from holdfast.storage.statements import statement

BATCH = 500
SWEPT = 1_000


class Fence(NamedTuple):
    """The run that writes: nothing of it is written unless the lease is still its own."""

    worker: int
    job: int
    run: int


class Writing(NamedTuple):
    """A checkpoint that is done: what a step came to, as JSON text, or the error that it ended with."""

    fence: Fence
    name: str
    kind: str
    value: str | None = None
    error: str | None = None
    failures: int = 0
    place: int | None = None
    code: int | None = None
    branch: str | None = None


WaitKind = Literal["sleep", "event", "call", "retry"]


class Adopted(NamedTuple):
    """`cycle`: set if the job to wait for already waits for this flow, directly or through others. It lists
    the jobs of that chain, from the job to this flow.
    """

    run: int
    cycle: list[int] | None


class Wait(NamedTuple):
    """One thing that a run waits for. `key` is that of an `event`; the `name` of a `call` is that of the
    bunch of its children. `delay` is the length of a sleep or of the pause before a retry, and for anything
    else the longest time to wait. `error` says why a step is tried again, or why an event that came was
    refused; `failures` is how often that happened.
    """

    fence: Fence
    name: str
    kind: WaitKind
    delay: timedelta | None = None
    key: str | None = None
    is_eager: bool = False
    failures: int = 0
    error: str | None = None
    place: int | None = None
    code: int | None = None
    branch: str | None = None

    @property
    def locks(self) -> tuple[str, ...]:
        """What must be locked before anybody looks whether it is over."""
        match self.kind:
            case "event":
                return (f"event:{self.key}",)
            case "call":
                return (f"job:{self.fence.job}",)
            case _:
                return ()


class Waited(NamedTuple):
    """What became of one thing that a run wanted to wait for: see flow_wait.sql."""

    job: int
    run: int
    name: str
    status: Literal["done", "late", "open", "waiting", "stop", "lost"]
    value: str | None


class TakenWakeUp(NamedTuple):
    """`is_counted`: among all that were taken are ends of members of groups."""

    id: int
    is_counted: bool


class Woken(NamedTuple):
    """How many flows, and the children of flows that ended without them."""

    woken: int
    orphans: list[int]


class TimedOut(NamedTuple):
    """How many flows go on, how long until the next one may, and whether there are wake-ups to be taken."""

    moved: int
    next_in: timedelta | None
    is_waking: bool


class Swept(NamedTuple):
    """How many wake-ups were missing, and where the next look begins; None: from the beginning."""

    missing: int
    child: int | None
    key: str | None


_LOAD = statement("flow_load", Recorded, is_repeatable=True)
_CHECKPOINT = statement("flow_checkpoint", int, is_repeatable=True)
_CHECKPOINT_ONE = statement("flow_checkpoint_one", int, is_repeatable=True)
_LOCK = statement("flow_lock", str)
_WAIT = statement("flow_wait", Waited)
_FAIL_WAITING = statement("flow_fail_waiting", int)
_WAKE_TAKE = statement("flow_wake_take", TakenWakeUp)
_WAKE = statement("flow_wake", Woken)
_TIME_OUT = statement("flow_time_out", TimedOut)
_SWEEP = statement("flow_sweep", Swept)
_CALL = statement("flow_call", int)
_CYCLE_LOOKS = 1_000
_ADOPT = statement("flow_adopt", Adopted, is_repeatable=True)
_EMIT = statement("event_emit", int)
_EVENT_PRUNE = statement("event_prune", int)


def load(schema: Schema, jobs: Sequence[int], *, now: datetime | None = None) -> Statement[Recorded]:
    """What flows have done so far."""
    return _LOAD.with_params(schema, jobs=number_array(jobs), now=now)


def checkpoint(schema: Schema, writings: Sequence[Writing], *, now: datetime | None = None) -> Statement[int]:
    """Keep what steps came to; answers the runs that still hold their lease."""
    if len(writings) == 1:
        return _checkpoint_one(schema, writings[0], now)
    return _CHECKPOINT.with_params(
        schema,
        workers=number_array(writing.fence.worker for writing in writings),
        jobs=number_array(writing.fence.job for writing in writings),
        runs=number_array(writing.fence.run for writing in writings),
        names=text_array([writing.name for writing in writings]),
        kinds=text_array([writing.kind for writing in writings]),
        places=_numbers([writing.place for writing in writings]),
        codes=_numbers([writing.code for writing in writings]),
        branches=text_array([writing.branch for writing in writings]),
        values=text_array([writing.value for writing in writings]),
        errors=text_array([writing.error for writing in writings]),
        failures=_numbers([writing.failures or None for writing in writings]),
        now=now,
    )


def _checkpoint_one(schema: Schema, writing: Writing, now: datetime | None) -> Statement[int]:
    return _CHECKPOINT_ONE.with_params(
        schema,
        worker=writing.fence.worker,
        job=writing.fence.job,
        run=writing.fence.run,
        name=writing.name,
        kind=writing.kind,
        place=writing.place,
        code=writing.code,
        branch=writing.branch,
        value=writing.value,
        error=writing.error,
        failures=writing.failures,
        now=now,
    )


def wait(schema: Schema, waits: Sequence[Wait], *, now: datetime | None = None) -> Conversation[list[Waited]]:
    """Let runs wait, or tell them what is there already. Hold it in a transaction if `is_locking`: the locks
    last from one statement to the next.
    """
    if is_locking(waits):
        keys = sorted({key for wait in waits for key in wait.locks})
        yield from ask(_LOCK.with_params(schema, keys=keys))
    return (
        yield from ask(
            _WAIT.with_params(
                schema,
                workers=[wait.fence.worker for wait in waits],
                jobs=[wait.fence.job for wait in waits],
                runs=[wait.fence.run for wait in waits],
                names=[wait.name for wait in waits],
                kinds=[wait.kind for wait in waits],
                keys=[wait.key for wait in waits],
                delays=[wait.delay for wait in waits],
                eager=[wait.is_eager for wait in waits],
                places=[wait.place for wait in waits],
                codes=[wait.code for wait in waits],
                branches=[wait.branch for wait in waits],
                failures=[wait.failures for wait in waits],
                errors=[wait.error for wait in waits],
                now=now,
            )
        )
    )


def fail_waiting(
    schema: Schema,
    job: int,
    run: int,
    error: str,
    *,
    retention: Retention,
    now: datetime | None = None,
) -> Statement[int]:
    """End a flow that waits since this run, as failed; answers nothing if it does not wait any more."""
    return _FAIL_WAITING.with_params(schema, job=job, run=run, error=error, keep_dead=retention.dead, now=now)


def is_locking(waits: Sequence[Wait]) -> bool:
    """Whether an event or a child may end one of these waits, and not only time."""
    return any(wait.locks for wait in waits)


def wake(
    schema: Schema, *, since: int = 0, limit: int = BATCH, now: datetime | None = None
) -> Conversation[tuple[list[int], Woken]]:
    """Take up to `limit` wake-ups and do what they ask for. Hold it in a transaction. Answers the wake-ups
    that were taken, too: fewer than `limit` means that none are left.
    """
    taken = yield from ask(_WAKE_TAKE.with_params(schema, since=since, limit=limit))
    if not taken:
        return [], Woken(0, [])
    ids = [wake_up.id for wake_up in taken]
    if taken[0].is_counted:
        yield from ask(count_ends(schema, ids, now=now))
    [woken] = yield from ask(_WAKE.with_params(schema, ids=ids, now=now))
    return ids, woken


def time_out(
    schema: Schema, *, since: int = 0, limit: int = BATCH, now: datetime | None = None
) -> Statement[TimedOut]:
    """Let flows go on that have waited as long as they wanted; look for wake-ups from `since` on."""
    return _TIME_OUT.with_params(schema, since=since, limit=limit, now=now)


def sweep(schema: Schema, *, child: int | None = None, key: str | None = None) -> Statement[Swept]:
    """Look for waits that are over although they were not woken."""
    return _SWEEP.with_params(schema, child=child or 0, key=key or "", limit=SWEPT)


def call(
    schema: Schema,
    fence: Fence,
    jobs: Sequence[NewJob],
    names: Sequence[str],
    *,
    bunch: str,
    place: int | None = None,
    code: int | None = None,
    branch: str | None = None,
    now: datetime | None = None,
) -> Statement[int]:
    """Begin children of one flow, a chunk of them; answers their ids, or nothing if the lease is lost."""
    return _CALL.with_params(
        schema,
        **fence._asdict(),
        **job_columns(jobs),
        names=text_array(names),
        bunch=bunch,
        place=place,
        code=code,
        branch=branch,
        now=now,
    )


def adopt(
    schema: Schema,
    fence: Fence,
    child: int,
    name: str,
    *,
    place: int | None = None,
    code: int | None = None,
    branch: str | None = None,
    now: datetime | None = None,
) -> Statement[Adopted]:
    """Let a flow wait for a job that it has not begun, unless that waits for this flow."""
    check_ids([child])
    return _ADOPT.with_params(
        schema,
        **fence._asdict(),
        child=child,
        name=name,
        place=place,
        code=code,
        branch=branch,
        looks=_CYCLE_LOOKS,
        now=now,
    )


def emit(
    schema: Schema,
    events: Sequence[tuple[str, str | None]],
    *,
    notify: bool,
    keep: timedelta = EVENTS,
    now: datetime | None = None,
) -> Statement[int]:
    """Write events: keys with payloads as JSON text. One that no flow takes is deleted after `keep`."""
    for key, payload in events:
        check_key(key, what="event")
        if payload is not None and (problem := flaw(payload)):
            raise InvalidInput(f'the payload of event "{key}" must be JSON text: {problem}')
    check_length("keep", keep)
    if keep <= timedelta():
        raise InvalidInput(f"keep is {keep}: give how long an event may wait for a flow that takes it")
    return _EMIT.with_params(
        schema,
        keys=[key for key, _ in events],
        payloads=[payload for _, payload in events],
        keep=keep,
        notify=notify,
        now=now,
    )


def prune_events(schema: Schema, *, limit: int = 1_000, now: datetime | None = None) -> Statement[int]:
    """Delete events that no flow took in time."""
    return _EVENT_PRUNE.with_params(schema, limit=limit, now=now)


def _numbers(values: Sequence[int | None]) -> str | None:
    """An array as text, NULL if there is nothing in it."""
    if not any(value is not None for value in values):
        return None
    return "{" + ",".join("NULL" if value is None else str(value) for value in values) + "}"
