"""Takes jobs away from workers whose lease has run out, so that other workers run them again."""

import random
from collections.abc import Callable
from time import monotonic

from holdfast.domain.retention import LOST_WORKERS, Retention
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.chores import BATCH, TakenAway, is_any_left_behind, rescue
from holdfast.storage.workers import forget_lost, mark_lost
from holdfast.worker.chores.chore import Chore, Did, Sign
from holdfast.worker.chores.end_reporter import EndReporter

_FULL_LOOK = 60.0
_WATCHING = 5.0


class JobRescuer:
    """Marks workers whose lease has run out as lost, and takes their runs away.

    A leader may die between the two, so the first look, and one now and then, also covers workers that were
    marked before. For a while after each loss it looks often: a worker that was frozen in the middle of a
    settle keeps its lease rows locked.
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
            self._watch_until = now + _FULL_LOOK
        if self._watch_until <= now < self._full_at:
            return Did()
        rescued = await self._rescue() if marked or await self._is_any_left_behind() else []
        if rescued:
            self._on_rescued(rescued)
            self._full_at = 0.0
            return Did(len(rescued), is_more=len(rescued) == BATCH)
        await self._database.run(forget_lost(self._schema, keep=LOST_WORKERS))
        self._full_at = monotonic() + _FULL_LOOK
        return Did(again_in=_WATCHING if now < self._watch_until else None)

    async def _is_any_left_behind(self) -> bool:
        return await self._database.run_one(is_any_left_behind(self._schema))

    async def _rescue(self) -> list[TakenAway]:
        async with self._database.transaction() as transaction:
            return await hold(
                rescue(self._schema, luck=random.random(), retention=self._retention),  # noqa: S311
                transaction.run,
            )


RESCUE = Chore(
    name="rescue",
    make=lambda needs: JobRescuer(
        needs.database,
        needs.schema,
        needs.retention,
        on_rescued=EndReporter(needs.emitter, needs.on_end).taken_away,
    ),
    shortest=5,
    longest=30,
    woken_by=(Sign.SILENT_WORKER,),
    follows_lease=True,
)
