"""Warns of jobs and schedules that no running worker serves: once for each queue, kind and schedule, and
again if it was served in between.
"""

from collections.abc import Iterable
from dataclasses import replace

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.unserved import KnownNames, Unserved, known_names, unserved
from holdfast.telemetry.events import Emitter, NobodyServes
from holdfast.worker.channels import Channel
from holdfast.worker.chores.chore import Chore, Did
from holdfast.worker.queue_choice import near

# The workers of a deployment start one after the other: only what is still unserved after this is reported.
_SURE_SECONDS = 5.0


class UnservedReporter:
    def __init__(self, database: Database, schema: Schema, emitter: Emitter) -> None:
        self._database = database
        self._schema = schema
        self._emitter = emitter
        self._seen: set[NobodyServes] = set()
        self._said: set[NobodyServes] = set()

    async def once(self) -> Did:
        found = set(_facts(await self._database.run(unserved(self._schema))))
        news = (found & self._seen) - self._said
        if news:
            known = await self._database.run_one(known_names(self._schema))
            for fact in sorted(news, key=_order):
                self._emitter.emit(replace(fact, near=_meant(fact, known)))
        self._said = (self._said | news) & found
        self._seen = found
        return Did(again_in=_SURE_SECONDS if found - self._said else None)


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
    make=lambda needs: UnservedReporter(needs.database, needs.schema, needs.emitter),
    shortest=15,
    longest=60,
    woken_by=(Channel.LEADER,),
    outlives_leadership=True,
)
