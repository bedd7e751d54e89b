"""What damage by hand, a faulty backup or a bug of ours leaves in the tables: looks for it, and mends.

A look reads a bounded part of one table and names the jobs in which it sees damage. A mend takes jobs, checks
them again under locks, and answers which of them it has changed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple

from holdfast.domain.retention import Retention
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement, StatementFile
from holdfast.storage.chores import HeldLease, take_away_workerless
from holdfast.storage.groups import close_if_over, end
from holdfast.storage.job_verbs import reschedule
from holdfast.storage.operators import place_lost
from holdfast.storage.statements import statement

DamageCode = Literal[
    "no_ring",
    "ready_of_no_job",
    "ended_but_ready",
    "misplaced",
    "scheduled_of_no_job",
    "ended_but_scheduled",
    "waiting_of_no_job",
    "ended_but_waiting",
    "lease_of_no_job",
    "ended_but_lease",
    "lease_of_no_worker",
    "waits_for_nothing",
    "lost",
    "in_two_places",
    "key_not_held",
    "stale_key",
    "ended_twice",
    "no_dead_letter",
    "dead_but_not_failed",
    "leftover_saved",
    "leftover_checkpoint",
    "leftover_wait",
    "leftover_ledger",
    "leftover_run_log",
    "group_not_closed",
    "group_not_ended",
    "leftover_members",
    "permits_miscounted",
    "bad_counter",
]

Cursor = Mapping[str, Any]
"""Where a look goes on: parameters of its statement."""


class Sight(NamedTuple):
    """A damage, or none: a look says in any case how many rows it has `looked` at, and where the next one
    begins; None: there is nothing behind.
    """

    job: int | None
    damage: DamageCode | None
    looked: int
    next: Cursor | None


Mend = Callable[[Schema, Sequence[int], Retention], Conversation[list[int]]]


@dataclass(frozen=True, slots=True)
class Check:
    """What is looked at, from where on, and what mends each damage that is seen there."""

    of: str
    look: StatementFile[Sight]
    start: Cursor
    mends: Mapping[DamageCode, Mend]

    def sights(self, schema: Schema, cursor: Cursor, *, limit: int) -> Statement[Sight]:
        bounds = {"limit": limit} if self.start else {}
        now = {"now": None} if "%(now)s" in self.look.source else {}
        return self.look.with_params(schema, **cursor, **bounds, **now)


def _by_job(job: int | None, damage: DamageCode | None, looked: int, last: int | None) -> Sight:
    return Sight(job, damage, looked, None if last is None else {"after": last})


def _in_ready(  # noqa: PLR0917  # the columns of a row
    job: int | None,
    damage: DamageCode | None,
    looked: int,
    queue: str | None,
    priority: int,
    last: int,
    segment: int,
) -> Sight:
    following = {"queue": queue, "priority": priority, "after": last, "segment": segment}
    return Sight(job, damage, looked, None if queue is None else following)


def _by_key(
    job: int | None, damage: DamageCode | None, looked: int, queue: str | None, key: str | None
) -> Sight:
    return Sight(job, damage, looked, None if queue is None else {"queue": queue, "key": key})


_BY_JOB: Final[Cursor] = {"after": -(2**63)}
_IN_READY: Final[Cursor] = {"queue": "", "priority": -(2**15), "after": -(2**63), "segment": -1}
_BY_KEY: Final[Cursor] = {"queue": "", "key": ""}
_AT_ONCE: Final[Cursor] = {}

_JOBS, _WAITING, _LEASES, _ENDS, _DEAD, _RING = (
    statement(f"fsck_{name}", _by_job, is_repeatable=True)
    for name in ("jobs", "waiting", "leases", "ends", "dead", "ring")
)
_LEDGER = statement("fsck_ledger", _by_job, is_repeatable=True)
_COUNTERS = statement("fsck_counters", _by_job, is_repeatable=True)
_PERMITS = statement("fsck_permits", _by_job, is_repeatable=True)
_READY = statement("fsck_ready", _in_ready, is_repeatable=True)
_KEYS = statement("fsck_keys", _by_key, is_repeatable=True)
_PLACES = statement("fsck_places", _by_job, is_repeatable=True)
_LEFTOVERS = statement("fsck_leftovers", _by_job, is_repeatable=True)
_GROUPS = statement("fsck_groups", _by_job, is_repeatable=True)
_MEMBERS = statement("fsck_members", _by_job, is_repeatable=True)

_KEEP_ONE_PLACE, _PLACE_AGAIN, _KEEP_LAST_END, _BURY, _UNBURY, _FREE_KEYS, _TAKE_KEYS = (
    statement(f"fsck_{name}", int)
    for name in (
        "keep_one_place",
        "place_again",
        "keep_last_end",
        "bury",
        "unbury",
        "free_keys",
        "take_keys",
    )
)
_WAKE_WAITING = statement("fsck_wake_waiting", int)
_NEW_RING = statement("fsck_new_ring", int)
_RECOUNT = statement("fsck_recount", int)
_DROP_COUNTERS = statement("fsck_drop_counters", int)
_DROP_PLACES = statement("fsck_drop_places", int)
_DROP_LEFTOVERS = statement("fsck_drop_leftovers", int)
_DROP_MEMBERS = statement("fsck_drop_members", int)
_WORKERLESS = statement("fsck_workerless", HeldLease)


def _by(file: StatementFile[int], **more: Any) -> Mend:
    def mend(schema: Schema, jobs: Sequence[int], _: Retention) -> Conversation[list[int]]:
        return (yield from ask(file.with_params(schema, jobs=list(jobs), **more)))

    return mend


def _put_back(schema: Schema, jobs: Sequence[int], _: Retention) -> Conversation[list[int]]:
    """A job that is nowhere runs again at once, with the attempts that the ledger knows of."""
    placed = yield from ask(place_lost(schema, jobs))
    if placed:
        yield from reschedule(schema, placed, delay=timedelta())
    return list(placed)


def _take_away(schema: Schema, jobs: Sequence[int], kept: Retention) -> Conversation[list[int]]:
    held = yield from ask(_WORKERLESS.with_params(schema, jobs=list(jobs), limit=len(jobs)))
    yield from take_away_workerless(schema, held, retention=kept)
    return [lease.job for lease in held]


def _close(schema: Schema, groups: Sequence[int], _: Retention) -> Conversation[list[int]]:
    """As the leader does: what follows is enqueued."""
    closed = {}
    for group in groups:
        closed[group] = yield from close_if_over(schema, group)
    return [group for group in groups if closed[group].is_closed]


def _end(schema: Schema, groups: Sequence[int], _: Retention) -> Conversation[list[int]]:
    return (yield from ask(end(schema, groups)))


def _of_no_job(file: StatementFile[int]) -> Mend:
    def mend(schema: Schema, jobs: Sequence[int], _: Retention) -> Conversation[list[int]]:  # noqa: ARG001  # there are none
        return (yield from ask(file.with_params(schema, now=None)))

    return mend


def _of_place(place: str) -> Check:
    look, drop = _PLACES.filled(place=place), _by(_DROP_PLACES.filled(place=place))
    mends: dict[Any, Mend] = {f"{place}_of_no_job": drop, f"ended_but_{place}": drop}
    return Check(place, look, _BY_JOB, mends)


def _of_leftovers(table: str, home: str = "job", key: str = "id") -> Check:
    words = {"table": table, "home": home, "key": key}
    mends: dict[Any, Mend] = {f"leftover_{table}": _by(_DROP_LEFTOVERS.filled(**words))}
    return Check(table, _LEFTOVERS.filled(**words), _BY_JOB, mends)


_OUT_OF_READY = _by(_DROP_PLACES.filled(place="ready"))

CHECKS: Final[tuple[Check, ...]] = (
    Check("ring", _RING, _AT_ONCE, {"no_ring": _of_no_job(_NEW_RING)}),
    Check(
        "ready",
        _READY,
        _IN_READY,
        {
            "ready_of_no_job": _OUT_OF_READY,
            "ended_but_ready": _OUT_OF_READY,
            "misplaced": _by(_PLACE_AGAIN),
        },
    ),
    *map(_of_place, ("scheduled", "waiting", "lease")),
    Check("workers of leases", _LEASES, _BY_JOB, {"lease_of_no_worker": _take_away}),
    Check("waits of flows", _WAITING, _BY_JOB, {"waits_for_nothing": _by(_WAKE_WAITING, now=None)}),
    Check(
        "jobs",
        _JOBS,
        _BY_JOB,
        {"lost": _put_back, "in_two_places": _by(_KEEP_ONE_PLACE), "key_not_held": _by(_TAKE_KEYS)},
    ),
    Check("unique keys", _KEYS, _BY_KEY, {"stale_key": _by(_FREE_KEYS, now=None)}),
    Check("ends", _ENDS, _BY_JOB, {"ended_twice": _by(_KEEP_LAST_END), "no_dead_letter": _by(_BURY)}),
    Check("dead letters", _DEAD, _BY_JOB, {"dead_but_not_failed": _by(_UNBURY)}),
    *map(_of_leftovers, ("saved", "checkpoint", "run_log")),
    Check(
        "ledger",
        _LEDGER,
        _BY_JOB,
        {"leftover_ledger": _by(_DROP_LEFTOVERS.filled(table="ledger", home="job", key="id"))},
    ),
    _of_leftovers("wait", home="waiting", key="job"),
    Check("groups", _GROUPS, _BY_JOB, {"group_not_closed": _close, "group_not_ended": _end}),
    Check("members of groups", _MEMBERS, _BY_JOB, {"leftover_members": _by(_DROP_MEMBERS)}),
    Check("permits of limits", _PERMITS, _AT_ONCE, {"permits_miscounted": _of_no_job(_RECOUNT)}),
    Check("counters", _COUNTERS, _AT_ONCE, {"bad_counter": _of_no_job(_DROP_COUNTERS)}),
)
"""In this order: what is mended first is not taken for another damage later."""
