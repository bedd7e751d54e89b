"""Looks once, a moment after a worker has started, for jobs that concern it and that no live worker serves.
The leader may be another process, whose log the operator may not be reading just then.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.errors import DatabaseError
from holdfast.storage.unserved import Unserved
from holdfast.worker.unserved_warnings import SURE_SECONDS, UnservedWarnings, facts_of


class UnservedAtStart:
    """Concerned are: what waits in its queues, or is of its kinds, or may be a misspelt name of either, and
    schedules.
    """

    def __init__(
        self, warnings: UnservedWarnings, *, queues: Collection[str], kinds: Collection[str]
    ) -> None:
        self._warnings = warnings
        self._queues = queues
        self._kinds = kinds

    async def run(self) -> None:
        await asyncio.sleep(SURE_SECONDS)
        with suppress(DatabaseError):  # the leader looks, too
            await self.look()

    async def look(self) -> None:
        found = await self._warnings.look()
        await self._warnings.warn_of(facts_of(row for row in found if self._concerns_us(row)))

    def _concerns_us(self, row: Unserved) -> bool:
        is_meant = did_you_mean(row.kind, self._kinds) or (
            row.queue is not None and did_you_mean(row.queue, self._queues)
        )
        return bool(
            row.schedule is not None or row.queue in self._queues or row.kind in self._kinds or is_meant
        )
