"""What needs an operator's attention, decided from what an overview has read: the worst first. The doctor
tells it too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdfast.domain.duration import compact
from holdfast.insights.overview_records import Attention
from holdfast.insights.queue_records import QueueStatus
from holdfast.insights.stats_records import Figures, Stats
from holdfast.storage.limits_shown import LIMIT_CAP, TroubledRow
from holdfast.storage.statistics import OverviewRow, ScheduleRow
from holdfast.telemetry.events import NobodyServes

RECENT = timedelta(minutes=10)
"""What failed in this time is compared with the rest of the hour."""

_LEAST_FAILED = 5
_LEAST_SHARE = 0.1
_JUMP = 2.0
_OVERDUE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Seen:
    """What an overview has read. `patience`: how long a job may wait without being told of."""

    row: OverviewRow
    queues: Sequence[QueueStatus]
    unserved: Sequence[NobodyServes]
    limits: Sequence[TroubledRow]
    schedules: Sequence[ScheduleRow]
    last_hour: Stats
    recent: Stats
    patience: timedelta


def attention(seen: Seen) -> tuple[Attention, ...]:
    return (
        *_no_worker(seen),
        *_no_leader(seen),
        *_unserved(seen),
        *_oldest(seen),
        *_stuck(seen),
        *_failing(seen),
        *_stopped(seen),
        *_schedules(seen),
        *_paused(seen),
        *_closed(seen),
        *_stopped_keys(seen),
        *_silent(seen),
    )


def _no_worker(seen: Seen) -> Iterator[Attention]:
    if seen.row.live_workers == 0:
        waiting = sum(queue.waiting for queue in seen.queues)
        yield Attention(
            "no_worker",
            None,
            f"No worker is alive{f', and {_jobs(waiting)}' if waiting else ': no job runs'}.",
            "Start one with: holdfast worker -A …",
        )


def _no_leader(seen: Seen) -> Iterator[Attention]:
    row = seen.row
    if row.leader is None and row.live_workers:
        late = f" for {_rounded(row.overdue)}" if row.overdue and row.overdue > _OVERDUE else ""
        yield Attention(
            "no_leader",
            None,
            f"No worker leads: delayed jobs{late} and schedules do not start, lost jobs are not rescued.",
            "If it lasts for more than 30 seconds, look at the workers' logs.",
        )


def _unserved(seen: Seen) -> Iterator[Attention]:
    queues = {queue.name: queue for queue in seen.queues}
    for fact in seen.unserved:
        kind, end = fact.kind, fact.near or "."
        match fact:
            case NobodyServes(schedule=str(schedule)):
                yield Attention(
                    "kind_unknown",
                    kind,
                    f'The schedule "{schedule}" fires jobs of kind "{kind}", which no live worker knows{end}',
                    "Deploy workers that have it, or pause the schedule.",
                )
            case NobodyServes(queue=str(queue), is_quiet=True):
                yield Attention(
                    "workers_quiet",
                    queue,
                    f'Jobs of kind "{kind}" wait in the queue "{queue}", where every worker that could run '
                    "them is quiet or stopping.",
                    "Let the quiet ones go on: holdfast workers resume ID",
                )
            case NobodyServes(queue=str(queue), kind=None):
                yield Attention(
                    "queue_unserved",
                    queue,
                    f'{_waiting(queues.get(queue))} in the queue "{queue}", which no live worker serves{end}',
                    f"Start one with: holdfast worker -A … -q {queue}",
                )
            case NobodyServes(queue=str(queue)):
                yield Attention(
                    "kind_unknown",
                    kind,
                    f'Jobs of kind "{kind}" wait in the queue "{queue}", whose live workers do not know it.',
                    "Deploy workers that have it, or let those that have it serve the queue.",
                )
            case _:
                yield Attention(
                    "kind_unknown",
                    kind,
                    f'Jobs of kind "{kind}" wait, which no live worker knows{end}',
                    "Deploy workers that have it.",
                )


def _oldest(seen: Seen) -> Iterator[Attention]:
    """Of queues that are served: for the others there is a better reason."""
    for queue in seen.queues:
        wait = queue.oldest_wait
        if queue.workers and not queue.is_paused and wait is not None and wait > seen.patience:
            yield Attention(
                "oldest_waiting",
                queue.name,
                f'A job in the queue "{queue.name}" has been due for {_rounded(wait)}; '
                f"{_jobs(queue.waiting)}.",
                f"See what is ahead of it: holdfast jobs list state:running queue:{queue.name}",
            )


def _stuck(seen: Seen) -> Iterator[Attention]:
    """While somebody leads: without a leader nobody is admitted, and there is a better reason."""
    for limit in seen.limits:
        if limit.stuck_for is not None and seen.row.leader is not None:
            yield Attention(
                "limit_stuck",
                limit.name,
                f'{_gated(limit).capitalize()} for the limit "{limit.name}", the oldest for '
                f"{_rounded(limit.stuck_for)}, although no job holds a permit.",
                "The leader admits them: look for errors in its log, and for leaders of a release without "
                "limits; see: holdfast fsck",
            )


def _failing(seen: Seen) -> Iterator[Attention]:
    hour = {each.name: each.figures for each in seen.last_hour.kinds}
    for each in seen.recent.kinds:
        now, before = each.figures, _share_before(each.figures, hour.get(each.name))
        share = now.failure_share
        if share is None or now.failed < _LEAST_FAILED:
            continue
        if share >= max(_LEAST_SHARE, before * _JUMP):
            yield Attention(
                "failure_rate",
                each.name,
                f'{share:.0%} of the runs of "{each.name}" failed in the last 10 minutes, '
                f"{before:.0%} in the 50 minutes before.",
                f"See why: holdfast failures list --kind {each.name} --since 10m",
            )


def _share_before(recent: Figures, hour: Figures | None) -> float:
    if hour is None:
        return 0.0
    failed, succeeded = hour.failed - recent.failed, hour.succeeded - recent.succeeded
    return failed / (failed + succeeded) if failed > 0 and succeeded >= 0 else 0.0


def _stopped(seen: Seen) -> Iterator[Attention]:
    for limit in seen.limits:
        if limit.open_until is not None:
            since = limit.open_until - (limit.pause or timedelta())
            yield Attention(
                "limit_stopped",
                limit.name,
                f'The breaker of the limit "{limit.name}" stopped it {_rounded(limit.now - since)} ago after '
                f"{_failures(limit.failures)} in a row, for another "
                f"{_rounded(limit.open_until - limit.now)}; {_gated(limit)}.",
                f"See why: holdfast failures list; let jobs start now: holdfast limits open {limit.name}",
            )


def _schedules(seen: Seen) -> Iterator[Attention]:
    for each in seen.schedules:
        if each.error is not None:
            yield Attention(
                "schedule_error",
                each.name,
                f'The schedule "{each.name}" cannot be planned: {each.error}.',
                f"Correct it; see: holdfast schedules show {each.name}",
            )
        if each.missed and each.last_missed_at is not None:
            ago = _rounded(each.now - each.last_missed_at)
            yield Attention(
                "plans_missed",
                each.name,
                f'The schedule "{each.name}" missed {_plans(each.missed)} in the last 24 hours, '
                f"the last one {ago} ago.",
                f"See them: holdfast schedules history {each.name} --missed",
                "note",
            )


def _paused(seen: Seen) -> Iterator[Attention]:
    for queue in seen.queues:
        if queue.paused_at is not None:
            why = f' ("{queue.note}")' if queue.note else ""
            until = queue.paused_until
            end = f", for another {_rounded(until - seen.row.now)}" if until is not None else ""
            ago = _rounded(seen.row.now - queue.paused_at)
            yield Attention(
                "queue_paused",
                queue.name,
                f'The queue "{queue.name}" was paused {ago} ago{end}{why}; {_jobs(queue.waiting)}.',
                f"Resume it with: holdfast queues resume {queue.name}",
                "note",
            )


def _closed(seen: Seen) -> Iterator[Attention]:
    for limit in seen.limits:
        if limit.closed_at is not None:
            why = f' ("{limit.closed_reason}")' if limit.closed_reason else ""
            until = limit.closed_until
            end = f", for another {_rounded(until - limit.now)}" if until is not None else ""
            yield Attention(
                "limit_closed",
                limit.name,
                f'The limit "{limit.name}" was closed {_rounded(limit.now - limit.closed_at)} ago{end}{why}; '
                f"{_gated(limit)}.",
                f"Open it with: holdfast limits open {limit.name}",
                "note",
            )
        elif limit.is_zero:
            yield Attention(
                "limit_closed",
                limit.name,
                f'An operator has set the limit "{limit.name}" to 0, so that no job starts; {_gated(limit)}.',
                f"Go back to what code says with: holdfast limits reset {limit.name}",
                "note",
            )


def _stopped_keys(seen: Seen) -> Iterator[Attention]:
    for limit in seen.limits:
        if limit.stopped_keys:
            keys = "1 key" if limit.stopped_keys == 1 else f"{limit.stopped_keys:,} keys"
            yield Attention(
                "limit_keys_stopped",
                limit.name,
                f'{keys} of the limit "{limit.name}" {"is" if limit.stopped_keys == 1 else "are"} closed, or '
                f"stopped by a breaker or a handler; {_gated(limit)} for the limit.",
                f"See which: holdfast limits show {limit.name}",
                "note",
            )


def _silent(seen: Seen) -> Iterator[Attention]:
    row = seen.row
    workers = zip(row.silent, row.silent_hosts, row.silent_pids, row.silent_since, row.are_lost, strict=True)
    for worker, host, pid, since, is_lost in workers:
        ago = _rounded(row.now - since)
        yield Attention(
            "worker_silent",
            str(worker),
            f"Worker {worker} (process {pid} on {host}) sent its last heartbeat {ago} ago"
            + (", and its jobs were given to others." if is_lost else "."),
            "Look at its log: it was killed, is frozen, or cannot reach the database.",
            "note" if is_lost else "warning",
        )


def _waiting(queue: QueueStatus | None) -> str:
    if queue is None or not queue.waiting:
        return "Jobs wait"
    return "1 job waits" if queue.waiting == 1 else f"{queue.waiting_text} jobs wait"


def _jobs(waiting: int) -> str:
    return "1 job waits" if waiting == 1 else f"{waiting:,} jobs wait"


def _gated(limit: TroubledRow) -> str:
    if limit.waiting > LIMIT_CAP:
        return f"{LIMIT_CAP:,}+ jobs wait"
    return _jobs(limit.waiting) if limit.waiting else "no job waits"


def _failures(count: int) -> str:
    return "1 failure" if count == 1 else f"{count:,} failures"


def _plans(count: int) -> str:
    return "1 plan" if count == 1 else f"{count} plans"


def _rounded(length: timedelta) -> str:
    return compact(max(timedelta(seconds=int(length.total_seconds())), timedelta()))
