"""Moves scheduled jobs that are due to where workers claim them."""

import logging

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.storage.chores import next_due, promote
from holdfast.worker.chores.chore import Chore, Did
from holdfast.worker.chores.job_rescuer import RESCUE
from holdfast.worker.chores.low_water import LowWater
from holdfast.worker.chores.timeout_enforcer import ENFORCE_TIMEOUTS

_log = logging.getLogger("holdfast.worker")

_PROMOTED = 4_000


class JobPromoter:
    """Answers exactly when the next job is due."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema
        self._low_water = LowWater()

    async def once(self) -> Did:
        """Asks first whether anything is due, so that an idle turn is one cheap statement."""
        since = self._low_water.next()
        due = await self._database.run_one(next_due(self._schema, since=since))
        if due.run is None or due.run:
            return Did(again_in=None if due.run is None else due.run.total_seconds())
        done = await self._database.run_one(promote(self._schema, since=since, limit=_PROMOTED))
        self._low_water.saw(done)
        if done.dropped:
            _log.warning(
                "dropped %s from scheduled without running: the jobs are gone, or ready already", done.dropped
            )
        # A job that is due and was not moved is locked by another transaction.
        return Did(done.moved, is_more=done.moved > 0, again_in=0.0)


PROMOTE = Chore(
    name="promote",
    make=lambda needs: JobPromoter(needs.database, needs.schema),
    shortest=5,
    longest=30,
    # A run that was taken away is scheduled for its next attempt, often at once.
    woken_by=(Channel.DUE, RESCUE, ENFORCE_TIMEOUTS),
    polls_unheard=True,
    fills_ready=True,
)
