"""Warns of jobs that ended without a worker that calls their hooks in time."""

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.notices import overdue_notices
from holdfast.telemetry.events import Emitter, HooksUntold
from holdfast.worker.chores.chore import Chore, Did


class UntoldReporter:
    def __init__(self, database: Database, schema: Schema, emitter: Emitter) -> None:
        self._database = database
        self._schema = schema
        self._emitter = emitter

    async def once(self) -> Did:
        for untold in await self._database.run(overdue_notices(self._schema)):
            self._emitter.emit(HooksUntold(untold.kind, untold.outcome, untold.number, untold.job))
        return Did()


REPORT_UNTOLD = Chore(
    name="untold",
    make=lambda needs: UntoldReporter(needs.database, needs.schema, needs.emitter),
    shortest=60,
    longest=120,
)
