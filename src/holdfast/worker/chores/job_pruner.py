"""Deletes finished jobs that were kept for long enough, unique keys that were held for a time, old counters,
and what operators did long ago.
"""

from time import monotonic

from holdfast.domain.retention import AUDIT, MINUTES
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import prune_audit
from holdfast.storage.chores import prune, prune_counters, prune_keys
from holdfast.storage.operations import prune_operations
from holdfast.storage.statistics import prune_statistics
from holdfast.worker.chores.chore import Chore, Did
from holdfast.worker.chores.low_water import LowWater

_PRUNED = 1_000
_COUNTERS_SECONDS = 600.0


class JobPruner:
    """One bounded batch in a turn, the next at once, until a batch is not full."""

    def __init__(self, database: Database, schema: Schema, *, counters: int = 10_000) -> None:
        """`counters`: how many of each table a batch deletes."""
        self._counters = counters
        self._database = database
        self._schema = schema
        self._low_water = LowWater()
        self._counters_at = 0.0

    async def once(self) -> Did:
        done = await self._database.run_one(prune(self._schema, since=self._low_water.next(), limit=_PRUNED))
        self._low_water.saw(done)
        keys = await self._database.run_one(prune_keys(self._schema, limit=_PRUNED))
        is_more = max(done.moved + done.held, keys) >= _PRUNED
        if not is_more and monotonic() >= self._counters_at:
            is_more = await self._prune_the_rest()
            if not is_more:
                self._counters_at = monotonic() + _COUNTERS_SECONDS
        return Did(done.moved, is_more=is_more)

    async def _prune_the_rest(self) -> bool:
        """Whether there may be more: with very many kinds, more counters grow old than one batch deletes."""
        minutes = await self._database.run_one(
            prune_counters(self._schema, keep=MINUTES, limit=self._counters)
        )
        others = await self._database.run_one(prune_statistics(self._schema, limit=self._counters))
        await self._database.run(prune_audit(self._schema, keep=AUDIT))
        await self._database.run(prune_operations(self._schema, keep=AUDIT))
        return max(minutes, others) >= self._counters


PRUNE = Chore(
    name="prune",
    make=lambda needs: JobPruner(needs.database, needs.schema),
    shortest=5,
    longest=60,
)
