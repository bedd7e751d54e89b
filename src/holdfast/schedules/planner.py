"""The planner: looks at the scopes that are due, lets the domain decide, fires. A chore of the leader,
harmless under two of them: a fire is a compare-and-swap on what was read.

It reads no clock but the database's: without an answer there is no look.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from holdfast.domain.planning import Look, Pause, Standing, decide_plans
from holdfast.domain.schedule import Rules, rules_from_json
from holdfast.domain.timing import Cron, Timing, timing_from_json
from holdfast.errors import InvalidInput, StatementFailed
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.schedules_plans import (
    PRUNED,
    DueRow,
    Fired,
    Move,
    batches,
    due,
    fire,
    next_look,
    prune,
    refuse,
)
from holdfast.telemetry.events import Emitter, PlansMissed, ScheduleFailed
from holdfast.worker.chores.pace import Chore, Did

_log = logging.getLogger("holdfast.schedules")

SCOPES = 1_000
PLANS = 10_000
_LOOKS = 10
_PUT_OFF = timedelta(minutes=1)
_GONE = "its schedule is gone"


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look came to. `is_last`: nothing else is due, or nothing could be moved."""

    fired: int
    moved: int
    is_last: bool


class Planner:
    """Decides what is due, a thousand scopes at a time, and answers exactly when to look again."""

    def __init__(self, database: Database, schema: Schema, emitter: Emitter) -> None:
        self._database = database
        self._schema = schema
        self._emitter = emitter

    async def once(self) -> Did:
        """A bounded pass: what is left over is done in the next one, which begins at once."""
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
        if wait is None:
            return Did(fired)
        return Did(fired, is_more=moved > 0 and not wait, again_in=wait.total_seconds())

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
        is_whole = len(moves) + len(refused) == len(due_rows) < SCOPES
        return Looked(fired, moved, is_last=is_whole or not moved)

    async def _fire(self, moves: Sequence[Move]) -> Fired:
        try:
            done = await self._database.run_one(fire(self._schema, moves))
        except StatementFailed as error:
            return await self._fire_apart(moves, error)
        if done.taken:
            self._tell_of_missed(moves)
        return done

    async def _fire_apart(self, moves: Sequence[Move], error: StatementFailed) -> Fired:
        """Postgres refuses something in this batch: whatever it is, it is no fault of the others."""
        if len(moves) == 1:
            return Fired(await self._refuse([(moves[0].row, str(error))]), 0)
        done = [await self._fire([move]) for move in moves]
        return Fired(sum(one.taken for one in done), sum(one.fired for one in done))

    async def _refuse(self, refused: Sequence[tuple[DueRow, str]]) -> int:
        if not refused:
            return 0
        for row, error in refused:
            if row.error != error:
                self._emitter.emit(ScheduleFailed(row.schedule or "", row.scope, error))
        named = [(row.schedule or "", row.scope, error) for row, error in refused]
        return await self._database.run_one(refuse(self._schema, named, wait=_PUT_OFF))

    def _tell_of_missed(self, moves: Sequence[Move]) -> None:
        plans: Counter[tuple[str, str]] = Counter()
        scopes: Counter[tuple[str, str]] = Counter()
        for move in moves:
            for decided in move.look.decided:
                if decided.decision == "missed" or decided.reason == "too_late":
                    key = (move.row.schedule or "", decided.reason or "missed")
                    plans[key] += decided.count
                    scopes[key] += 1
        for (schedule, reason), count in plans.items():
            self._emitter.emit(PlansMissed(schedule, scopes[schedule, reason], count, reason))


class PlanPruner:
    """Deletes plans that were kept long enough. They never fire again: scopes remember how far they came."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema

    async def once(self) -> Did:
        pruned = await self._database.run_one(prune(self._schema))
        return Did(pruned, is_more=pruned == PRUNED)


def chores(database: Database, schema: Schema, emitter: Emitter) -> list[Chore]:
    """What the leader does for schedules."""
    return [
        Chore("plan", Planner(database, schema, emitter).once, emitter, shortest=1, longest=30),
        Chore("prune plans", PlanPruner(database, schema).once, emitter, shortest=5, longest=60),
    ]


def decide_all(rows: Sequence[DueRow], now: datetime) -> tuple[list[Move], list[tuple[DueRow, str]]]:
    """What to do with each scope, up to so many plans; and those about which nothing can be decided."""
    moves: list[Move] = []
    refused: list[tuple[DueRow, str]] = []
    known: dict[object, Look] = {}
    plans = 0
    for row in rows:
        if plans >= PLANS:
            break
        try:
            look = _decided(row, now, known)
        except InvalidInput as error:
            refused.append((row, str(error)))
        except Exception as error:  # noqa: BLE001  # reported; one scope holds up no other
            _log.exception("planning failed: schedule=%s scope=%s", row.schedule, row.scope)
            refused.append((row, f"{type(error).__name__}: {error}"))
        else:
            moves.append(Move(row, look))
            plans += len(look.decided)
    return moves, refused


def _decided(row: DueRow, now: datetime, known: dict[object, Look]) -> Look:
    """Scopes that stand alike are decided alike, once; but jitter is each scope's own."""
    if row.version is None:
        raise InvalidInput(_GONE)
    timing, rules = read_schedule(row.timing, row.rules, row.zone)
    skips = frozenset(moment.astimezone(UTC) for moment in row.skips or ())
    if rules.jitter:
        return decide_plans(timing, rules, _standing(row, skips), now)
    key = (
        row.timing,
        row.rules,
        row.zone,
        row.since_at,
        row.last_plan_at,
        row.active_since,
        row.paused_at,
        row.paused_until,
        skips,
    )
    look = known.get(key)
    if look is None:
        look = known[key] = decide_plans(timing, rules, _standing(row, skips), now)
    return look


def _standing(row: DueRow, skips: frozenset[datetime]) -> Standing:
    """In UTC: a datetime in the session's zone adds and compares by the clock on the wall, which is wrong
    twice a year.
    """
    return Standing(
        row.schedule or "",
        row.scope,
        since=row.since_at.astimezone(UTC),
        last_plan_at=_utc(row.last_plan_at),
        active_since=_utc(row.active_since),
        pause=None if row.paused_at is None else Pause(row.paused_at.astimezone(UTC), _utc(row.paused_until)),
        skips=skips,
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
