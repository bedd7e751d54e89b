"""Ends waiting jobs whose deadline has passed."""

from collections.abc import Callable

from holdfast.domain.retention import Retention
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.chores import Expiry, expire, next_due
from holdfast.worker.chores.chore import Chore, Did
from holdfast.worker.chores.end_reporter import EndReporter
from holdfast.worker.chores.low_water import LowWater


class JobExpirer:
    """Answers exactly when the next deadline passes."""

    def __init__(
        self, database: Database, schema: Schema, retention: Retention, on_expired: Callable[[Expiry], None]
    ) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention
        self._on_expired = on_expired
        self._low_water = LowWater()

    async def once(self) -> Did:
        since = self._low_water.next()
        due = await self._database.run_one(next_due(self._schema, since=since))
        if due.deadline is None or due.deadline:
            return Did(again_in=None if due.deadline is None else due.deadline.total_seconds())
        done = await self._database.run_one(expire(self._schema, since=since, retention=self._retention))
        self._low_water.saw(done)
        if done.moved:
            self._on_expired(done)
        return Did(done.moved, is_more=done.moved > 0, again_in=0.0)


EXPIRE = Chore(
    name="expire",
    make=lambda needs: JobExpirer(
        needs.database,
        needs.schema,
        needs.retention,
        on_expired=EndReporter(needs.emitter, needs.on_end).expired,
    ),
    shortest=5,
    longest=30,
)
