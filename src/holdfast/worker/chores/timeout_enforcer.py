"""Takes runs away whose worker is alive, but did not enforce their timeout."""

import random
from collections.abc import Callable
from datetime import timedelta

from holdfast.domain.retention import Retention
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.chores import BATCH, TakenAway, is_any_overdue, rescue_overdue
from holdfast.worker.chores.chore import Chore, Did
from holdfast.worker.chores.end_reporter import EndReporter

_GRACE = timedelta(seconds=30)


class TimeoutEnforcer:
    def __init__(
        self,
        database: Database,
        schema: Schema,
        retention: Retention,
        on_taken_away: Callable[[list[TakenAway]], None],
    ) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention
        self._on_taken_away = on_taken_away

    async def once(self) -> Did:
        """Asks first whether there is any, so that an idle turn is one statement."""
        if not await self._database.run_one(is_any_overdue(self._schema, grace=_GRACE)):
            return Did()
        async with self._database.transaction() as transaction:
            taken = await hold(
                rescue_overdue(
                    self._schema,
                    luck=random.random(),  # noqa: S311
                    grace=_GRACE,
                    retention=self._retention,
                ),
                transaction.run,
            )
        if taken:
            self._on_taken_away(taken)
        return Did(len(taken), is_more=len(taken) == BATCH)


ENFORCE_TIMEOUTS = Chore(
    name="time out",
    make=lambda needs: TimeoutEnforcer(
        needs.database,
        needs.schema,
        needs.retention,
        on_taken_away=EndReporter(needs.emitter, needs.on_end).taken_away,
    ),
    shortest=10,
    longest=30,
)
