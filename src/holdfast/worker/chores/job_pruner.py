"""Deletes finished jobs that were kept for long enough, old counters, and what operators did long ago."""

from time import monotonic

from holdfast.domain.retention import AUDIT, COUNTERS
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import prune_audit
from holdfast.storage.chores import prune, prune_counters
from holdfast.storage.operations import prune_operations
from holdfast.worker.chores.chore import Chore, Did
from holdfast.worker.chores.low_water import LowWater

_PRUNED = 1_000
_COUNTERS_SECONDS = 600.0


class JobPruner:
    """One bounded batch in a turn, the next at once, until a batch is not full."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema
        self._low_water = LowWater()
        self._counters_at = 0.0

    async def once(self) -> Did:
        done = await self._database.run_one(prune(self._schema, since=self._low_water.next(), limit=_PRUNED))
        self._low_water.saw(done)
        if done.moved < _PRUNED and monotonic() >= self._counters_at:
            self._counters_at = monotonic() + _COUNTERS_SECONDS
            await self._database.run(prune_counters(self._schema, keep=COUNTERS))
            await self._database.run(prune_audit(self._schema, keep=AUDIT))
            await self._database.run(prune_operations(self._schema, keep=AUDIT))
        return Did(done.moved, is_more=done.moved == _PRUNED)


PRUNE = Chore(
    name="prune",
    make=lambda needs: JobPruner(needs.database, needs.schema),
    shortest=5,
    longest=60,
)
