"""Brings parked jobs back when a worker can claim them."""

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.storage.ring import LEFTOVERS, unpark
from holdfast.worker.chores.chore import Chore, Did


class JobUnparker:
    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema

    async def once(self) -> Did:
        moved = await self._database.run_one(unpark(self._schema))
        return Did(moved, is_more=moved == LEFTOVERS)


UNPARK = Chore(
    name="unpark",
    make=lambda needs: JobUnparker(needs.database, needs.schema),
    shortest=1,
    longest=30,
    woken_by=(Channel.LEADER,),
    polls_unheard=True,
    fills_ready=True,
)
