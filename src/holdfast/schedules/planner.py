"""The planner: looks at the scopes that are due, lets the domain decide, fires. A chore of the leader,
harmless under two of them: a fire is a compare-and-swap on what was read.

It reads no clock but the database's: without an answer there is no look.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from holdfast.domain.plan_decisions import Pause, ScopeStanding, decide_plans
from holdfast.domain.schedule_rules import Rules, rules_from_json
from holdfast.domain.timing import Cron, Timing, timing_from_json
from holdfast.errors import InvalidInput, StatementFailed
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.storage.schedules_plans import (
    DecidedScopes,
    DueRow,
    Fired,
    due,
    fire,
    fire_alike,
    next_look,
    refuse,
)
from holdfast.telemetry.events import Emitter, PlansMissed, ScheduleFailed
from holdfast.worker.chores.chore import Chore, Did

_log = logging.getLogger("holdfast.schedules")

SCOPES = 10_000
PLANS = 10_000
_LOOKS = 10
_MANY = 50
_TOGETHER = 2_000
_TOLD = 3
_PUT_OFF = timedelta(minutes=1)
_GONE = "its schedule is gone"


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look came to. `is_last`: nothing else is due, or nothing could be moved."""

    fired: int
    moved: int
    is_last: bool


class Refused(NamedTuple):
    row: DueRow
    scopes: list[str]
    error: str


class Planner:
    """Decides what is due, some thousands of scopes at a time, and answers exactly when to look again."""

    def __init__(self, database: Database, schema: Schema, emitter: Emitter) -> None:
        self._database = database
        self._schema = schema
        self._emitter = emitter

    async def once(self) -> Did:
        """A bounded pass: what is left over is done in the next one, which begins at once. Asks first whether
        anything is due, so that an idle pass is one statement.
        """
        wait = await self._database.run_one(next_look(self._schema))
        if wait is None or wait:
            return Did(again_in=_seconds(wait))
        fired = moved = 0
        for _ in range(_LOOKS):
            looked = await self.look()
            fired += looked.fired
            moved = looked.moved
            if looked.is_last:
                break
        else:
            return Did(fired, is_more=True)
        wait = await self._database.run_one(next_look(self._schema))
        return Did(fired, is_more=moved > 0 and wait == timedelta(), again_in=_seconds(wait))

    async def catch_up(self, schedule: str) -> None:
        """Decide all that is due of one schedule, such as before its timing changes."""
        while not (await self.look(schedule)).is_last:
            pass

    async def look(self, schedule: str | None = None) -> Looked:
        rows = await self._database.run(due(self._schema, limit=SCOPES, schedule=schedule))
        due_rows = [row for row in rows if row.schedule is not None]
        if not due_rows:
            return Looked(0, 0, is_last=True)
        moves, refused = decide_all(due_rows, rows[0].now.astimezone(UTC))
        fired = moved = 0
        for batch in batches(moves):
            done = await self._fire(batch)
            fired += done.fired
            moved += done.taken
        moved += await self._refuse(refused)
        read = sum(len(row.scopes) for row in due_rows)
        decided = sum(len(move.scopes) for move in moves) + sum(len(scopes) for _, scopes, _ in refused)
        return Looked(fired, moved, is_last=decided == read < SCOPES or not moved)

    async def _fire(self, moves: Sequence[DecidedScopes]) -> Fired:
        is_alike = len(moves[0].scopes) > 1
        statement = fire_alike(self._schema, moves[0]) if is_alike else fire(self._schema, moves)
        try:
            done = await self._database.run_one(statement)
        except StatementFailed as error:
            return await self._fire_apart(moves, error)
        if done.taken:
            self._tell_of_missed(moves)
        return done

    async def _fire_apart(self, moves: Sequence[DecidedScopes], error: StatementFailed) -> Fired:
        """Postgres refuses something in this batch: fire each scope alone, so that only the bad one fails."""
        each = [move._replace(scopes=[scope]) for move in moves for scope in move.scopes]
        if len(each) == 1:
            return Fired(await self._refuse([Refused(each[0].row, each[0].scopes, str(error))]), 0)
        done = [await self._fire([move]) for move in each]
        return Fired(sum(one.taken for one in done), sum(one.fired for one in done))

    async def _refuse(self, refused: Sequence[Refused]) -> int:
        if not refused:
            return 0
        for row, scopes, error in refused:
            if row.error != error:
                for scope in scopes[:_TOLD]:
                    self._emitter.emit(ScheduleFailed(row.schedule or "", scope, error))
        named = [(row.schedule or "", scope, error) for row, scopes, error in refused for scope in scopes]
        return await self._database.run_one(refuse(self._schema, named, wait=_PUT_OFF))

    def _tell_of_missed(self, moves: Sequence[DecidedScopes]) -> None:
        plans: Counter[tuple[str, str]] = Counter()
        scopes: Counter[tuple[str, str]] = Counter()
        for move in moves:
            for decided in move.look.decided:
                if decided.decision == "missed" or decided.reason == "too_late":
                    key = (move.row.schedule or "", decided.reason or "missed")
                    plans[key] += decided.count * len(move.scopes)
                    scopes[key] += len(move.scopes)
        for (schedule, reason), count in plans.items():
            self._emitter.emit(PlansMissed(schedule, scopes[schedule, reason], count, reason))


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()


def decide_all(rows: Sequence[DueRow], now: datetime) -> tuple[list[DecidedScopes], list[Refused]]:
    """What to do with the scopes, up to PLANS plans; and the scopes about which nothing can be decided."""
    moves: list[DecidedScopes] = []
    refused: list[Refused] = []
    plans = 0
    for row in rows:
        if plans >= PLANS:
            break
        try:
            decided = _decided(row, now)
        except InvalidInput as error:
            refused.append(Refused(row, row.scopes, str(error)))
        except Exception as error:  # noqa: BLE001  # reported; one scope holds up no other
            _log.exception("planning failed: schedule=%s scopes=%s", row.schedule, row.scopes[:_TOLD])
            refused.append(Refused(row, row.scopes, f"{type(error).__name__}: {error}"))
        else:
            moves += decided
            plans += sum(len(move.look.decided) * len(move.scopes) for move in decided)
    return moves, refused


def _decided(row: DueRow, now: datetime) -> list[DecidedScopes]:
    """Scopes that stand alike are decided alike, once; but jitter is each scope's own."""
    if row.version is None:
        raise InvalidInput(_GONE)
    timing, rules = read_schedule(row.timing, row.rules, row.zone)
    is_exclusive = rules.overlap != "allow"
    groups = [[scope] for scope in row.scopes] if rules.jitter else [row.scopes]
    return [
        DecidedScopes(row, scopes, decide_plans(timing, rules, _standing(row, scopes[0]), now), is_exclusive)
        for scopes in groups
    ]


def batches(moves: Sequence[DecidedScopes]) -> Iterator[list[DecidedScopes]]:
    """What goes into one statement each: many scopes that stand alike, or some that stand each for itself; in
    either case a bounded number of plans, unless a single scope has more.
    """
    batch: list[DecidedScopes] = []
    size = 0
    for move in moves:
        weight = max(len(move.look.decided), 1)
        if len(move.scopes) >= _MANY and not move.is_exclusive and move.row.skips is None:
            step = max(PLANS // weight, 2)
            ordered = sorted(move.scopes)
            yield from ([move._replace(scopes=ordered[n : n + step])] for n in range(0, len(ordered), step))
            continue
        for scope in move.scopes:
            if batch and size + weight > _TOGETHER:
                yield batch
                batch, size = [], 0
            batch.append(move._replace(scopes=[scope]))
            size += weight
    if batch:
        yield batch


def _standing(row: DueRow, scope: str) -> ScopeStanding:
    """In UTC: a datetime in the session's zone adds and compares by the clock on the wall, which is wrong
    twice a year.
    """
    return ScopeStanding(
        row.schedule or "",
        scope,
        since=row.since_at.astimezone(UTC),
        last_plan_at=_utc(row.last_plan_at),
        active_since=_utc(row.active_since),
        pause=None if row.paused_at is None else Pause(row.paused_at.astimezone(UTC), _utc(row.paused_until)),
        skips=frozenset(moment.astimezone(UTC) for moment in row.skips or () if moment is not None),
    )


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


@lru_cache(maxsize=10_000)
def read_schedule(timing: str, rules: str, zone: str | None = None) -> tuple[Timing, Rules]:
    """As stored; with the scope's own zone, if it has one. InvalidInput for what means nothing."""
    when = timing_from_json(timing)
    if zone is not None and isinstance(when, Cron):
        when = replace(when, zone=zone)
    return when, rules_from_json(rules)


FIRE_PLANS = Chore(
    name="plan",
    make=lambda needs: Planner(needs.database, needs.schema, needs.emitter),
    shortest=1,
    longest=30,
    woken_by=(Channel.PLAN,),
    polls_unheard=True,
    fills_ready=True,
)
