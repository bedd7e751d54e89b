"""Goes on with operations that the process which began them has left."""

from datetime import timedelta

from holdfast.domain.retention import Retention
from holdfast.insights.operation_steps import advance
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.storage.operations import running_operations
from holdfast.worker.chores.chore import Chore, Did

# A process that goes on with its own operation advances it more often than that.
_IDLE = timedelta(seconds=3)


class OperationRunner:
    """One batch of one operation in a turn, the next at once, until that operation has ended."""

    def __init__(self, database: Database, schema: Schema, retention: Retention) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention
        self._under_way: int | None = None

    async def once(self) -> Did:
        if self._under_way is None and not await self._database.run(running_operations(self._schema)):
            return Did()  # one statement, while there is nothing to do
        idle = _IDLE if self._under_way is None else None
        async with self._database.transaction() as transaction:
            step = advance(self._schema, operation=self._under_way, retention=self._retention, idle=idle)
            self._under_way = await hold(step, transaction.run)
        if self._under_way is not None:
            return Did(1, is_more=True)
        # One that another process has just advanced, or begun, may be left by it.
        return Did(again_in=_IDLE.total_seconds())


RUN_OPERATIONS = Chore(
    name="operations",
    make=lambda needs: OperationRunner(needs.database, needs.schema, needs.retention),
    shortest=5,
    longest=60,
    woken_by=(Channel.LEADER,),
)
