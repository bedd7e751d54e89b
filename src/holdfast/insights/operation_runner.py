"""Goes on with operations that the process which began them has left."""

from datetime import timedelta

from holdfast.domain.retention import Retention
from holdfast.insights.operation_steps import advance
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.worker.chores.chore import Chore, Did

# A process that goes on with its own operation advances it more often than that.
_IDLE = timedelta(seconds=3)


class OperationRunner:
    """One batch of one operation in a turn, the next at once."""

    def __init__(self, database: Database, schema: Schema, retention: Retention) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention

    async def once(self) -> Did:
        async with self._database.transaction() as transaction:
            step = advance(self._schema, operation=None, retention=self._retention, idle=_IDLE)
            advanced = await hold(step, transaction.run)
        return Did() if advanced is None else Did(1, is_more=True)


RUN_OPERATIONS = Chore(
    name="operations",
    make=lambda needs: OperationRunner(needs.database, needs.schema, needs.retention),
    shortest=5,
    longest=60,
    woken_by=(Channel.LEADER,),
)
