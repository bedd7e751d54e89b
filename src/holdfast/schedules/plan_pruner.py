"""Deletes plans that were kept for long enough."""

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.schedules_plans import PRUNED, prune
from holdfast.worker.chores.chore import Chore, Did


class PlanPruner:
    """A deleted plan never fires again: its scope remembers how far it has come."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema

    async def once(self) -> Did:
        pruned = await self._database.run_one(prune(self._schema))
        return Did(pruned, is_more=pruned == PRUNED)


PRUNE_PLANS = Chore(
    name="prune plans",
    make=lambda needs: PlanPruner(needs.database, needs.schema),
    shortest=30,
    longest=600,
)
