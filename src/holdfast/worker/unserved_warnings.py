"""The warnings of one worker that no live worker serves a queue, a kind or a schedule: each once, and again
if it was served in between. The look at the worker's start and the leader's chore both warn through it.
"""

from collections.abc import Iterable
from dataclasses import replace

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.unserved import KnownNames, Unserved, known_names, unserved
from holdfast.telemetry.events import Emitter, NobodyServes

# The workers of a deployment start one after the other: only what is still unserved after this is reported.
SURE_SECONDS = 5.0


class UnservedWarnings:
    def __init__(self, database: Database, schema: Schema, emitter: Emitter) -> None:
        self._database = database
        self._schema = schema
        self._emitter = emitter
        self._said: set[NobodyServes] = set()

    async def look(self) -> list[Unserved]:
        """What waits for a worker that is not there."""
        return await self._database.run(unserved(self._schema))

    async def warn_of(self, facts: set[NobodyServes]) -> None:
        """Of those that were not warned of before."""
        if news := self.not_said(facts):
            known = await self._database.run_one(known_names(self._schema))
            for fact in sorted(news, key=_order):
                self._said.add(fact)
                self._emitter.emit(replace(fact, near=meant(fact, known)))

    def not_said(self, facts: set[NobodyServes]) -> set[NobodyServes]:
        return facts - self._said

    def forget_others(self, facts: set[NobodyServes]) -> None:
        """Workers serve all other facts again. If one of these is unserved later, it is reported again."""
        self._said &= facts


def facts_of(rows: Iterable[Unserved]) -> set[NobodyServes]:
    """A queue that no worker serves is reported once, whatever kinds wait in it; so is a kind that no worker
    knows.
    """
    return {fact for row in rows for fact in _facts(row)}


def _facts(row: Unserved) -> Iterable[NobodyServes]:
    if row.schedule is not None:
        yield NobodyServes(row.schedule, None, row.kind)
        return
    if row.is_quiet:
        yield NobodyServes(None, row.queue, row.kind, is_quiet=True)
        return
    if not row.is_queue_served:
        yield NobodyServes(None, row.queue, None)
    if not row.is_kind_known:
        yield NobodyServes(None, None, row.kind)
    elif row.is_queue_served:
        yield NobodyServes(None, row.queue, row.kind)


def _order(fact: NobodyServes) -> tuple[str, str, str]:
    return fact.schedule or "", fact.queue or "", fact.kind or ""


def meant(fact: NobodyServes, known: KnownNames) -> str:
    if fact.queue is None:
        return did_you_mean(fact.kind or "", known.kinds)
    return did_you_mean(fact.queue, known.queues) if fact.kind is None else ""
