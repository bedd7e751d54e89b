"""Checks that every job is in exactly one place, and that nothing is left over; mends what is not, while
workers run. Looks at a bounded part of a table in each transaction, and again before it believes a damage: a
job may be moving.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import get_args

from holdfast.domain.job import check_text
from holdfast.domain.retention import Retention
from holdfast.errors import QuestionTimeout
from holdfast.insights.job_actions import target_of
from holdfast.insights.step_taker import Look, Steps
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import put_audit
from holdfast.storage.fsck import CHECKS, Check, Cursor, DamageCode, Sight

_WINDOW = 5_000
_LEAST_WINDOW = 20
_LOOKS_AGAIN = 2
_NAMED = 20

# What is wrong, what comes of it, and what mending does.
WORDS: dict[DamageCode, tuple[str, str]] = {
    "no_ring": (
        "The ring has no row: no job can be enqueued.",
        "The row is written again.",
    ),
    "ready_of_no_job": (
        "A row in ready has no job: it was deleted by hand.",
        "The row is deleted.",
    ),
    "ended_but_ready": (
        "The job has ended, and is in ready too: a worker drops it when its turn comes.",
        "The row in ready is deleted.",
    ),
    "misplaced": (
        "The row in ready has another queue or kind than the job, or a priority that does not exist: no verb finds it.",  # noqa: E501
        "The row gets the queue and the kind of the job.",
    ),
    "scheduled_of_no_job": ("A row in scheduled has no job.", "The row is deleted."),
    "ended_but_scheduled": (
        "The job has ended, and is in scheduled too.",
        "The row in scheduled is deleted.",
    ),
    "waiting_of_no_job": ("A row in waiting has no job.", "The row is deleted."),
    "ended_but_waiting": ("The flow has ended, and is in waiting too.", "The row in waiting is deleted."),
    "lease_of_no_job": ("A lease has no job.", "The lease is deleted."),
    "ended_but_lease": (
        "The job has ended, and has a lease too.",
        "The lease is deleted: a run that still holds it can write nothing.",
    ),
    "lease_of_no_worker": (
        "The job runs in a worker whose row is gone: nobody would ever take its run over.",
        "The run is taken away, as that of a lost worker: the job is retried, or fails.",
    ),
    "waits_for_nothing": (
        "The flow is in waiting, and waits for nothing: nothing would wake it.",
        "The flow runs again from its last checkpoint, and waits for what it needs.",
    ),
    "lost": (
        "The job has not ended, and is in no table: no worker will run it.",
        "The job runs again, with the attempts that the ledger knows of.",
    ),
    "in_two_places": (
        "The job is in two places: it may run twice.",
        "One place stays: a lease before ready, scheduled and waiting.",
    ),
    "key_not_held": (
        "The job is active and does not hold its unique key: another job with that key may exist.",
        "The job gets its key, unless another one holds it by now.",
    ),
    "stale_key": (
        "A unique key is held by a job that has ended or is gone: the next enqueue takes it over.",
        "The key is freed.",
    ),
    "ended_twice": (
        "The ledger has two ends of the job: lists may show either of them.",
        "Only the last end stays.",
    ),
    "no_dead_letter": (
        "The job failed for good, and is not among the dead letters: it cannot be retried.",
        "Its dead letter is written.",
    ),
    "dead_but_not_failed": (
        "A dead letter belongs to a job that has not failed for good, or is gone.",
        "The dead letter is deleted.",
    ),
    "leftover_saved": ("What a job saved is left over: the job is gone.", "It is deleted."),
    "leftover_checkpoint": ("Checkpoints are left over: their flow is gone.", "They are deleted."),
    "leftover_wait": ("A wait is left over: its flow does not wait.", "It is deleted."),
    "leftover_ledger": ("Runs in the ledger are left over: their job is gone.", "They are deleted."),
    "leftover_run_log": ("Log lines are left over: their job is gone.", "They are deleted."),
    "group_not_closed": (
        "Every member of the group has ended, and what follows was not enqueued. The number is that of the group.",  # noqa: E501
        "The group is closed as the leader does it, and what follows is enqueued.",
    ),
    "group_not_ended": (
        "The job that follows the group is gone, and the group has not ended. The number is that of the group.",  # noqa: E501
        "The group ends.",
    ),
    "leftover_members": (
        "Places of members are left over: their group is gone. The number is that of the group.",
        "They are deleted.",
    ),
    "permits_miscounted": (
        "A limit counts other permits than jobs hold: too few jobs of it would run at once, or too many.",
        "The permits are counted anew.",
    ),
    "bad_counter": (
        "A counter has a number below zero, or is of a time to come: sums that it is in are wrong.",
        "Such counters are deleted.",
    ),
}


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind of damage: how many jobs have it, how many of them were `fixed`, and the first twenty of them.
    `sentence` says what is wrong and what comes of it, `remedy` what fixing does.
    """

    code: DamageCode
    count: int
    fixed: int
    jobs: tuple[int, ...]
    sentence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class FsckReport:
    """What was found. `jobs` is how many jobs were looked at, `is_fixing` whether damage was to be mended."""

    jobs: int
    damages: tuple[Damage, ...]
    is_fixing: bool

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged, or nothing any more."""
        return all(damage.fixed == damage.count for damage in self.damages)


@dataclass(frozen=True, slots=True)
class FsckProgress:
    """How far it has come: which check of how many, what it looks at, at how many rows so far."""

    check: int
    checks: int
    of: str
    looked: int


OnProgress = Callable[[FsckProgress], None]


@dataclass(slots=True)
class _Found:
    jobs: list[int] = field(default_factory=list)
    count: int = 0
    fixed: int = 0


def steps(
    schema: Schema,
    *,
    fix: bool,
    retention: Retention,
    by: str,
    reason: str | None,
    on_progress: OnProgress | None,
    window: int = _WINDOW,
) -> Steps[FsckReport]:
    """Every check over its whole table, in windows. They become smaller where Postgres takes too long."""
    if reason is not None:
        check_text("reason", reason)
    found: dict[DamageCode, _Found] = {}
    jobs = 0
    for number, check in enumerate(CHECKS, 1):
        looked = 0
        cursor: Cursor | None = check.start
        while cursor is not None:
            try:
                sights, seen = yield from _looked(schema, check, cursor, window)
            except QuestionTimeout:
                if window <= _LEAST_WINDOW:
                    raise
                window //= 4
                continue
            looked += sights[0].looked
            for code in sorted({code for code, _ in seen}, key=get_args(DamageCode).index):
                damaged = sorted(job for of, job in seen if of == code and job is not None)
                entry = found.setdefault(code, _Found())
                entry.jobs += damaged[: _NAMED - len(entry.jobs)]
                entry.count += len(damaged) or 1
                if fix:
                    entry.fixed += yield _mended(
                        schema, check, code, damaged, retention=retention, by=by, reason=reason
                    )
            if on_progress is not None:
                on_progress(FsckProgress(number, len(CHECKS), check.of, looked))
            cursor = sights[0].next
        if check.of == "jobs":
            jobs = looked
    damages = tuple(
        Damage(code, entry.count, entry.fixed, tuple(entry.jobs), *WORDS[code])
        for code, entry in found.items()
    )
    return FsckReport(jobs, damages, fix)


def _looked(
    schema: Schema, check: Check, cursor: Cursor, window: int
) -> Steps[tuple[list[Sight], set[tuple[DamageCode, int | None]]]]:
    """One window, and what is damaged there each time that it is looked at."""
    look = check.sights(schema, cursor, limit=window)
    sights: list[Sight] = yield Look(ask(look))
    seen = _damaged(sights)
    for _ in range(_LOOKS_AGAIN):
        if seen:
            again: list[Sight] = yield Look(ask(look))
            seen &= _damaged(again)
    return sights, seen


def _damaged(sights: list[Sight]) -> set[tuple[DamageCode, int | None]]:
    return {(sight.damage, sight.job) for sight in sights if sight.damage is not None}


def _mended(  # a transaction of its own, with its entry in the audit
    schema: Schema,
    check: Check,
    code: DamageCode,
    jobs: list[int],
    *,
    retention: Retention,
    by: str,
    reason: str | None,
) -> Conversation[int]:
    mended = yield from check.mends[code](schema, jobs, retention)
    if not mended:
        return 0
    target = target_of(jobs) if jobs else check.of
    counts = Counter({"fixed": len(mended)})
    yield from ask(
        put_audit(schema, action=f"fsck {code}", by=by, target=target, reason=reason, counts=counts)
    )
    return len(mended)
