"""Chores on exact timers: promote what is due, expire what is late, rescue what is lost."""

import logging
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic

from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.chores import (
    BATCH,
    Expiry,
    Pass,
    Promoted,
    TakenAway,
    expire,
    next_due,
    promote,
    rescue,
    rescue_overdue,
)
from holdfast.storage.runs import Retention
from holdfast.storage.workers import forget_lost, mark_lost
from holdfast.worker.chores.pace import Did

_log = logging.getLogger("holdfast.worker")

PROMOTED = 4_000
FULL_LOOK = 30.0
_LATE_COMMITS = timedelta(seconds=2)
_TIMEOUT_GRACE = timedelta(seconds=30)
_WATCHING = 5.0
_REMEMBER_LOST = timedelta(hours=1)


class LowWater:
    """Where the next look may begin: a little before the last row seen, for transactions that commit late,
    and from the beginning now and then.
    """

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._full_at = 0.0

    def next(self) -> datetime | None:
        if self._since is None or monotonic() >= self._full_at:
            self._full_at = monotonic() + FULL_LOOK
            return None
        return self._since - _LATE_COMMITS

    def saw(self, done: Promoted | Pass | Expiry) -> None:
        if done.seen is not None:
            self._since = done.seen if self._since is None else max(self._since, done.seen)

    def lower(self, moment: datetime) -> None:
        """Somebody scheduled something before what we have seen."""
        if self._since is not None:
            self._since = min(self._since, moment)


class Promoter:
    """Moves jobs whose time has come, and answers exactly when the next one comes."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema
        self.low_water = LowWater()

    async def once(self) -> Did:
        """Asks first, so that an idle pass is one statement."""
        since = self.low_water.next()
        due = await self._database.run_one(next_due(self._schema, since=since))
        if due.run is None or due.run:
            return Did(again_in=_seconds(due.run))
        done = await self._database.run_one(promote(self._schema, since=since, limit=PROMOTED))
        self.low_water.saw(done)
        if done.dropped:
            _log.warning(
                "dropped %s from scheduled without running: the jobs are gone, or ready already", done.dropped
            )
        # Due and yet not moved: somebody else has it locked.
        return Did(done.moved, is_more=done.moved > 0, again_in=0.0)


class Expirer:
    """Ends waiting jobs whose deadline has passed, and answers exactly when the next one passes."""

    def __init__(
        self, database: Database, schema: Schema, retention: Retention, on_ended: Callable[[Expiry], None]
    ) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention
        self._on_ended = on_ended
        self._low_water = LowWater()

    async def once(self) -> Did:
        since = self._low_water.next()
        due = await self._database.run_one(next_due(self._schema, since=since))
        if due.deadline is None or due.deadline:
            return Did(again_in=_seconds(due.deadline))
        done = await self._database.run_one(expire(self._schema, since=since, retention=self._retention))
        self._low_water.saw(done)
        if done.moved:
            self._on_ended(done)
        return Did(done.moved, is_more=done.moved > 0, again_in=0.0)


class Rescuer:
    """Marks workers whose lease ran out, and takes their runs away. Looks for runs of workers that were
    marked before when it begins and now and then, as a leader may have died between the two; and for a
    while after each loss, as a worker that was frozen in the middle of a settle keeps its lease locked.
    """

    def __init__(
        self,
        database: Database,
        schema: Schema,
        retention: Retention,
        on_rescued: Callable[[list[TakenAway]], None],
    ) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention
        self._on_rescued = on_rescued
        self._full_at = 0.0
        self._watch_until = 0.0

    async def once(self) -> Did:
        marked = await self._database.run(mark_lost(self._schema))
        now = monotonic()
        if marked:
            self._watch_until = now + 2 * FULL_LOOK
        if self._watch_until <= now < self._full_at:
            return Did()
        async with self._database.transaction() as transaction:
            rescued = await hold(
                rescue(self._schema, luck=random.random(), retention=self._retention),  # noqa: S311
                transaction.run,
            )
        if rescued:
            self._on_rescued(rescued)
            self._full_at = 0.0
            return Did(len(rescued), is_more=len(rescued) == BATCH)
        await self._database.run(forget_lost(self._schema, keep=_REMEMBER_LOST))
        self._full_at = monotonic() + 2 * FULL_LOOK
        return Did(again_in=_WATCHING if now < self._watch_until else None)


class TimeoutEnforcer:
    """Takes away runs whose worker is alive but did not enforce their timeout."""

    def __init__(
        self,
        database: Database,
        schema: Schema,
        retention: Retention,
        on_rescued: Callable[[list[TakenAway]], None],
    ) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention
        self._on_rescued = on_rescued

    async def once(self) -> Did:
        async with self._database.transaction() as transaction:
            taken = await hold(
                rescue_overdue(
                    self._schema,
                    luck=random.random(),  # noqa: S311
                    grace=_TIMEOUT_GRACE,
                    retention=self._retention,
                ),
                transaction.run,
            )
        if taken:
            self._on_rescued(taken)
        return Did(len(taken), is_more=len(taken) == BATCH)


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
