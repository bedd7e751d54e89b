"""Wakes flows whose wait is over, and those that have waited for as long as they wanted to. Wake-ups of the
ends of members of groups are counted on the way, by `storage.flows.wake`.
"""

from time import monotonic

from holdfast.domain.retention import Retention
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.storage.flows import BATCH, prune_events, sweep, time_out, wake
from holdfast.storage.operators import cancel
from holdfast.worker.chores.chore import Chore, Did

SWEEP_SECONDS = 19.0
PRUNE_SECONDS = 600.0
_CANCELLED = 500
# A transaction that took its number early may commit late.
_LATE_COMMITS = 1_000


class FlowWaker:
    """Each look begins a little before the last wake-up that was seen; after a sweep, at the first."""

    def __init__(self, database: Database, schema: Schema, retention: Retention) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention
        self._since = 0
        self._sweep_at = 0.0
        self._prune_at = 0.0
        self._child: int | None = None
        self._key: str | None = None

    async def once(self) -> Did:
        if monotonic() >= self._sweep_at:
            await self._sweep()
        timed_out = await self._database.run_one(time_out(self._schema, since=self._since))
        taken, woken = await self._wake() if timed_out.is_waking else (0, 0)
        return Did(
            woken + timed_out.moved,
            is_more=taken >= BATCH or timed_out.moved >= BATCH,
            again_in=None if timed_out.next_in is None else timed_out.next_in.total_seconds(),
        )

    async def _wake(self) -> tuple[int, int]:
        """How many wake-ups were taken, and how many flows they have woken."""
        async with self._database.transaction() as transaction:
            ids, woken = await hold(wake(self._schema, since=self._since), transaction.run)
        if ids:
            self._since = max(ids[-1] - _LATE_COMMITS, 0)
        for first in range(0, len(woken.orphans), _CANCELLED):
            orphans = woken.orphans[first : first + _CANCELLED]
            asked = cancel(self._schema, orphans, retention=self._retention, reason="its flow has ended")
            await hold(asked, self._database.run)
        return len(ids), woken.woken

    async def _sweep(self) -> None:
        """A page of what is open; the next one soon, until all was looked at."""
        swept = await self._database.run_one(sweep(self._schema, child=self._child, key=self._key))
        self._child, self._key, self._since = swept.child, swept.key, 0
        is_through = swept.child is None and swept.key is None
        self._sweep_at = monotonic() + (SWEEP_SECONDS if is_through else 1.0)
        if is_through and monotonic() >= self._prune_at:
            self._prune_at = monotonic() + PRUNE_SECONDS
            await self._database.run(prune_events(self._schema))


WAKE_FLOWS = Chore(
    name="flows",
    make=lambda needs: FlowWaker(needs.database, needs.schema, needs.retention),
    shortest=1,
    longest=20,
    woken_by=(Channel.WAKE, Channel.DUE),
    polls_unheard=True,
    fills_ready=True,
)
