"""Warns of jobs and schedules that no running worker serves: once for each queue, kind and schedule, and
again if it was served in between.
"""

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from holdfast.errors import DatabaseError
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.storage.unserved import KnownNames, Unserved, known_names, unserved
from holdfast.telemetry.events import Emitter, NobodyServes
from holdfast.worker.chores.chore import Chore, Did
from holdfast.worker.queue_choice import near

# The workers of a deployment start one after the other: only what is still unserved after this is reported.
_SURE_SECONDS = 5.0


class UnservedReporter:
    """The leader's: it looks again and again. `said` is shared with the look at this worker's own start."""

    def __init__(
        self,
        database: Database,
        schema: Schema,
        emitter: Emitter,
        said: set[NobodyServes] | None = None,
    ) -> None:
        self._database = database
        self._schema = schema
        self._emitter = emitter
        self._seen: set[NobodyServes] = set()
        self._said = set() if said is None else said

    async def once(self) -> Did:
        found = set(_facts(await self._database.run(unserved(self._schema))))
        await _report(found & self._seen, self._said, self._database, self._schema, self._emitter)
        self._said &= found
        self._seen = found
        return Did(again_in=_SURE_SECONDS if found - self._said else None)


class UnservedAtStart:
    """Looks once, a moment after a worker has started, and warns of what concerns it: what waits in its
    queues, or is of its kinds, or may be a misspelt name of either, and schedules. The leader may be another
    process, whose log the operator may not be reading just then.
    """

    def __init__(
        self,
        database: Database,
        schema: Schema,
        emitter: Emitter,
        *,
        queues: Collection[str],
        kinds: Collection[str],
        said: set[NobodyServes],
    ) -> None:
        self._database = database
        self._schema = schema
        self._emitter = emitter
        self._queues = queues
        self._kinds = kinds
        self._said = said

    async def run(self) -> None:
        await asyncio.sleep(_SURE_SECONDS)
        with suppress(DatabaseError):  # the leader looks, too
            await self.look()

    async def look(self) -> None:
        rows = await self._database.run(unserved(self._schema))
        found = set(_facts(row for row in rows if self._concerns_us(row)))
        await _report(found, self._said, self._database, self._schema, self._emitter)

    def _concerns_us(self, row: Unserved) -> bool:
        is_meant = near(row.kind, self._kinds) or (row.queue is not None and near(row.queue, self._queues))
        return bool(
            row.schedule is not None or row.queue in self._queues or row.kind in self._kinds or is_meant
        )


async def _report(
    found: set[NobodyServes], said: set[NobodyServes], database: Database, schema: Schema, emitter: Emitter
) -> None:
    if found - said:
        known = await database.run_one(known_names(schema))
        for fact in sorted(found - said, key=_order):
            said.add(fact)
            emitter.emit(replace(fact, near=_meant(fact, known)))


def _facts(rows: Iterable[Unserved]) -> Iterable[NobodyServes]:
    """A queue that no worker serves is reported once, whatever kinds wait in it; so is a kind that no worker
    knows.
    """
    for row in rows:
        if row.schedule is not None:
            yield NobodyServes(row.schedule, None, row.kind)
        elif not row.is_queue_served:
            yield NobodyServes(None, row.queue, None)
        if row.schedule is None and not row.is_kind_known:
            yield NobodyServes(None, None, row.kind)
        elif row.schedule is None and row.is_queue_served:
            yield NobodyServes(None, row.queue, row.kind)


def _order(fact: NobodyServes) -> tuple[str, str, str]:
    return fact.schedule or "", fact.queue or "", fact.kind or ""


def _meant(fact: NobodyServes, known: KnownNames) -> str:
    if fact.queue is None:
        return near(fact.kind or "", known.kinds)
    return near(fact.queue, known.queues) if fact.kind is None else ""


REPORT_UNSERVED = Chore(
    name="unserved",
    make=lambda needs: UnservedReporter(needs.database, needs.schema, needs.emitter, needs.said_unserved),
    shortest=15,
    longest=60,
    woken_by=(Channel.LEADER,),
)
