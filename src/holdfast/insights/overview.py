"""Reads what an operator sees first, in a few bounded questions."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from holdfast.domain.duration import Length, duration
from holdfast.errors import InvalidInput
from holdfast.insights.attention import RECENT, Seen, attention
from holdfast.insights.failure_groups import list_groups
from holdfast.insights.overview_records import NextFire, Overview, StateCount, States, Throughput
from holdfast.insights.queue_records import status_of
from holdfast.insights.stats import read_stats
from holdfast.insights.stats_records import Stats
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.limits_shown import troubled_limits
from holdfast.storage.operators import queues
from holdfast.storage.statistics import STATE_CAP, OverviewRow, ScheduleRow, overview, overview_plans
from holdfast.storage.unserved import known_names, unserved
from holdfast.telemetry.events import NobodyServes
from holdfast.worker.unserved_warnings import facts_of, meant

_SHOWN = 5
_MINUTES = 5
_HOUR = timedelta(hours=1)


def read_overview(schema: Schema, *, patience: Length, now: datetime | None = None) -> Conversation[Overview]:
    """Checked before anything is asked: a conversation only begins when it is held."""
    longest = duration(patience, name="patience")
    if longest <= timedelta():
        raise InvalidInput("patience is how long a job may wait without being told of: give more than zero")
    return _read(schema, longest, now)


def see(schema: Schema, patience: timedelta, now: datetime | None = None) -> Conversation[Seen]:
    """All that decides about what needs attention."""
    [row] = yield from ask(overview(schema, now=now))
    return Seen(
        row=row,
        queues=[status_of(each) for each in (yield from ask(queues(schema, now=now)))],
        unserved=(yield from _unserved(schema, now)),
        limits=(yield from ask(troubled_limits(schema, patience=patience, now=now))),
        schedules=(yield from ask(overview_plans(schema, now=now))),
        last_hour=(yield from read_stats(schema, since=_HOUR, now=now)),
        recent=(yield from read_stats(schema, since=RECENT, has_spreads=False, now=now)),
        patience=patience,
    )


def _unserved(schema: Schema, now: datetime | None) -> Conversation[list[NobodyServes]]:
    facts = facts_of((yield from ask(unserved(schema, now=now))))
    if not facts:
        return []
    [known] = yield from ask(known_names(schema, now=now))
    return [replace(fact, near=meant(fact, known)) for fact in sorted(facts, key=repr)]


def _read(schema: Schema, patience: timedelta, now: datetime | None) -> Conversation[Overview]:
    seen = yield from see(schema, patience, now)
    row, last_hour = seen.row, seen.last_hour
    failures = yield from list_groups(
        schema, kind=None, queue=None, since=_HOUR * 24, order="newest", after=None, limit=_SHOWN, now=now
    )
    return Overview(
        attention=attention(seen),
        states=_states(row),
        throughput=_throughput(last_hour),
        failed_last_hour=last_hour.total.failed,
        workers=row.live_workers,
        leader=row.leader,
        queues=tuple(seen.queues),
        failures=failures.groups,
        fires=_fires(seen.schedules),
        last_hour=last_hour,
        now=row.now,
    )


def _states(row: OverviewRow) -> States:
    return States(
        ready=_capped(row.ready),
        gated=_capped(row.gated),
        scheduled=_capped(row.scheduled),
        running=_capped(row.running),
        waiting=_capped(row.waiting),
        failed=_capped(row.failed),
    )


def _capped(count: int) -> StateCount:
    return StateCount(min(count, STATE_CAP), has_more=count > STATE_CAP)


def _throughput(last_hour: Stats) -> Throughput:
    over = [point.figures for point in last_hour.points[-_MINUTES - 1 : -1]]
    return Throughput(
        enqueued=sum(each.enqueued for each in over) / _MINUTES,
        started=sum(each.started for each in over) / _MINUTES,
        ended=sum(each.ended for each in over) / _MINUTES,
        failed=sum(each.failed for each in over) / _MINUTES,
    )


def _fires(schedules: Sequence[ScheduleRow]) -> tuple[NextFire, ...]:
    planned = [
        NextFire(each.name, each.kind, each.queue, each.next_at)
        for each in schedules
        if each.next_at is not None and not each.is_paused
    ]
    return tuple(sorted(planned, key=lambda fire: fire.at)[:_SHOWN])
