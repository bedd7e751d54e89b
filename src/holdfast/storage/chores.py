"""What the leader does in passes: promote, expire, rescue, fold and prune. Harmless under two leaders."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from holdfast.domain.backoff import from_json
from holdfast.domain.failure import Failure
from holdfast.domain.fingerprint import identified
from holdfast.domain.outcome import Lost
from holdfast.domain.retention import Retention
from holdfast.domain.states import FinalState
from holdfast.domain.transition import Run, decide
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.runs import Settled, Settlement, settle
from holdfast.storage.statements import statement

BATCH = 500

_LEASE_LOST = Failure("worker presumed dead: its lease expired without a heartbeat", "lease_lost")
_STALE = Failure("hard timeout exceeded: the run outlived its timeout unsettled", "stale_timeout")
_EXPIRED = Failure("did not complete before its deadline", "deadline_expired")


class Pass(NamedTuple):
    """How many rows a pass moved, and the time up to which it has looked: the next pass begins there."""

    moved: int
    seen: datetime | None


class Promoted(NamedTuple):
    """A pass over scheduled jobs. `dropped` of them did not become ready: their jobs are gone, or were ready
    already.
    """

    moved: int
    seen: datetime | None
    dropped: int


class Expiry(NamedTuple):
    """A pass over deadlines, with the jobs that it ended."""

    moved: int
    seen: datetime | None
    jobs: list[int]
    attempts: list[int]
    kinds: list[str]
    queues: list[str]


class Pruned(NamedTuple):
    """A pass over ended jobs. `held` of them stay, since they are members of groups that have not ended."""

    moved: int
    seen: datetime | None
    held: int


class ChosenPass(NamedTuple):
    """How many jobs went, from where the next pass begins, and whether it may find more there."""

    moved: int
    seen: datetime | None
    is_more: bool


class PrunableCount(NamedTuple):
    """How many jobs may go that ended so. No outcome: where the next count begins, and whether (1 or 0) it
    may find more there.
    """

    outcome: FinalState | None
    jobs: int
    seen: datetime | None


class Fold(NamedTuple):
    """A pass over tallies of runs, and over those of jobs that were kept for no time."""

    folded: int
    seen: int | None
    folded_enqueued: int
    seen_enqueued: int | None


class NextDue(NamedTuple):
    """How long until something is due by itself; None where nothing is to come."""

    run: timedelta | None
    deadline: timedelta | None


class HeldLease(NamedTuple):
    """A lease that is locked for rescue, with the policy that decides what follows. `is_over`: the job had
    ended before, so the lease was only deleted and nothing follows.
    """

    worker: int
    job: int
    run: int
    attempt: int
    max_attempts: int
    backoff: str | None
    on_lost: Literal["retry", "fail"] | None
    kind: str | None
    queue: str | None
    host: str | None
    pid: int | None
    is_over: bool


class TakenAway(NamedTuple):
    """A run that was taken away from its worker, why, and how it was settled. `settled` has no outcome if the
    job had ended before, or was deleted.
    """

    lease: HeldLease
    failure: Failure
    settled: Settled


_PROMOTE = statement("promote", Promoted)
_EXPIRE = statement("expire", Expiry)
_NEXT_DUE = statement("next_due", NextDue, is_repeatable=True)
_LOST_LEASES, _OVERDUE_LEASES = (statement(name, HeldLease) for name in ("lost_leases", "overdue_leases"))
_IS_ANY_OVERDUE = statement("is_any_overdue", bool, is_repeatable=True)
_IS_ANY_LEFT_BEHIND = statement("is_any_left_behind", bool, is_repeatable=True)
_FOLD = statement("fold", Fold)
_PRUNE = statement("prune", Pruned)
_PRUNE_CHOSEN = statement("prune_chosen", ChosenPass)
_PRUNE_COUNT = statement("prune_count", PrunableCount, is_repeatable=True)
_PRUNE_COUNTERS = statement("prune_counters", int)
_PRUNE_KEYS = statement("prune_keys", int)


def promote(
    schema: Schema, *, since: datetime | None = None, limit: int = 4_000, now: datetime | None = None
) -> Statement[Promoted]:
    """Move jobs whose time has come to ready."""
    return _PROMOTE.with_params(schema, since=since, limit=limit, now=now)


def expire(
    schema: Schema,
    *,
    since: datetime | None = None,
    limit: int = BATCH,
    retention: Retention,
    now: datetime | None = None,
) -> Statement[Expiry]:
    """End waiting jobs whose deadline has passed."""
    return _EXPIRE.with_params(
        schema, since=since, limit=limit, keep_other=retention.other, error=_EXPIRED.to_json(), now=now
    )


def next_due(
    schema: Schema, *, since: datetime | None = None, now: datetime | None = None
) -> Statement[NextDue]:
    """Ask how long the leader may sleep."""
    return _NEXT_DUE.with_params(schema, since=since, now=now)


def rescue(
    schema: Schema,
    *,
    luck: float,
    limit: int = BATCH,
    retention: Retention,
    now: datetime | None = None,
) -> Conversation[list[TakenAway]]:
    """Take up to `limit` runs away from lost workers. Hold it in a transaction: the locks last from one
    statement to the next. A short answer means that none are left.
    """
    held = yield from ask(_LOST_LEASES.with_params(schema, limit=limit))
    return (yield from _take_away(schema, held, Lost(_LEASE_LOST), luck=luck, retention=retention, now=now))


def rescue_overdue(
    schema: Schema,
    *,
    luck: float,
    grace: timedelta,
    limit: int = BATCH,
    retention: Retention,
    now: datetime | None = None,
) -> Conversation[list[TakenAway]]:
    """Take away runs that have outlived their timeout by a grace, although their worker is alive."""
    held = yield from ask(_OVERDUE_LEASES.with_params(schema, limit=limit, grace=grace, now=now))
    return (yield from _take_away(schema, held, Lost(_STALE), luck=luck, retention=retention, now=now))


def take_away_workerless(
    schema: Schema, held: list[HeldLease], *, retention: Retention, luck: float = 0.5
) -> Conversation[list[TakenAway]]:
    """Take runs away whose worker's row was deleted, so that no rescue finds them."""
    return (yield from _take_away(schema, held, Lost(_LEASE_LOST), luck=luck, retention=retention, now=None))


def _take_away(
    schema: Schema,
    held: list[HeldLease],
    outcome: Lost,
    *,
    luck: float,
    retention: Retention,
    now: datetime | None,
) -> Conversation[list[TakenAway]]:
    if not held:
        return []
    outcomes = {
        kind: Lost(identified(outcome.failure, kind or "")) for kind in {lease.kind for lease in held}
    }
    settlements = [
        Settlement(lease.worker, lease.job, lease.run, decide(_run(lease), outcomes[lease.kind], luck))
        for lease in held
        if not lease.is_over
    ]
    became = {
        (lease.job, lease.run): Settled(lease.job, lease.run, "already", None)
        for lease in held
        if lease.is_over
    }
    if settlements:
        answers = yield from ask(settle(schema, settlements, retention=retention, is_noticed=True, now=now))
        became |= {(answer.job, answer.run): answer for answer in answers}
    return [TakenAway(lease, outcome.failure, became[lease.job, lease.run]) for lease in held]


def _run(lease: HeldLease) -> Run:
    return Run(lease.attempt, lease.max_attempts, from_json(lease.backoff), lease.on_lost or "retry")


def fold(
    schema: Schema, *, since: int | None = None, since_enqueued: int | None = None, limit: int = 10_000
) -> Statement[Fold]:
    """Fold tallies into counters, and into what began in each minute."""
    return _FOLD.with_params(schema, since=since, since_enqueued=since_enqueued, limit=limit)


def is_any_overdue(schema: Schema, *, grace: timedelta, now: datetime | None = None) -> Statement[bool]:
    """Whether `rescue_overdue` has anything to do."""
    return _IS_ANY_OVERDUE.with_params(schema, grace=grace, now=now)


def is_any_left_behind(schema: Schema) -> Statement[bool]:
    """Whether `rescue` has anything to do."""
    return _IS_ANY_LEFT_BEHIND.with_params(schema)


def prune(
    schema: Schema,
    *,
    since: datetime | None = None,
    limit: int = 1_000,
    now: datetime | None = None,
) -> Statement[Pruned]:
    """Delete jobs that were kept as long as they asked. Repeat until the answer is short."""
    return _PRUNE.with_params(schema, since=since, limit=limit, now=now)


def prune_chosen(
    schema: Schema,
    *,
    since: datetime | None = None,
    limit: int,
    page: int,
    states: Sequence[FinalState] | None = None,
    older_than: timedelta | None = None,
    now: datetime | None = None,
) -> Statement[ChosenPass]:
    """The same, of the next `page` of them: those that ended in one of these states, and that long ago."""
    return _PRUNE_CHOSEN.with_params(
        schema,
        since=since,
        limit=limit,
        page=page,
        states=None if states is None else list(states),
        older_than=older_than,
        now=now,
    )


def count_prunable(
    schema: Schema,
    *,
    since: datetime | None = None,
    cap: int,
    page: int,
    states: Sequence[FinalState] | None = None,
    older_than: timedelta | None = None,
    now: datetime | None = None,
) -> Statement[PrunableCount]:
    """What `prune_chosen` would delete of the next `page`, counted up to a cap."""
    return _PRUNE_COUNT.with_params(
        schema,
        since=since,
        cap=cap,
        page=page,
        states=None if states is None else list(states),
        older_than=older_than,
        now=now,
    )


def prune_keys(schema: Schema, *, limit: int = 1_000, now: datetime | None = None) -> Statement[int]:
    """Free unique keys that were held for a time, which is over; answers how many were looked at."""
    return _PRUNE_KEYS.with_params(schema, limit=limit, now=now)


def prune_counters(
    schema: Schema, *, keep: timedelta, limit: int = 10_000, now: datetime | None = None
) -> Statement[int]:
    """Delete counters of long ago."""
    return _PRUNE_COUNTERS.with_params(schema, keep=keep, limit=limit, now=now)
