"""Closes groups whose members have all ended: enqueues what follows them. Cancels the members of groups that
are to be cancelled, and deletes groups that were kept for long enough.
"""

from time import monotonic

from holdfast.domain.group import GroupCounts
from holdfast.domain.retention import Retention
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.storage.groups import (
    DueGroup,
    cancel_some,
    close,
    counted,
    due,
    end,
    first_awaited,
    prune_groups,
    wait_for,
)
from holdfast.worker.chores.chore import Chore, Did

SWEEP_SECONDS = 15.0
PRUNE_SECONDS = 600.0
_GUESTS_SECONDS = 2.0
_BUSY_SECONDS = 0.2
_DUE = 100
_PRUNED = 10_000


class GroupCloser:
    """Looks at the groups whose members have been counted, and in a sweep at all that are open: what was
    counted is a hint. It falls short of guests, of members deleted by hand, and of what a leader of an older
    release took.
    """

    def __init__(self, database: Database, schema: Schema, retention: Retention) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention
        self._sweep_at = 0.0
        self._prune_at = 0.0

    async def once(self) -> Did:
        is_sweep = monotonic() >= self._sweep_at
        closed, again_in, after = 0, None, 0
        while groups := await self._database.run(
            due(self._schema, is_sweep=is_sweep, after=after, limit=_DUE)
        ):
            for group in groups:
                did = await self._tend(group)
                closed += did.count
                again_in = _sooner(again_in, did.again_in)
            after = groups[-1].id
        if is_sweep:
            self._sweep_at = monotonic() + SWEEP_SECONDS
        is_more = False
        if monotonic() >= self._prune_at:
            pruned = await self._database.run_one(prune_groups(self._schema, limit=_PRUNED))
            is_more = pruned >= _PRUNED
            self._prune_at = self._prune_at if is_more else monotonic() + PRUNE_SECONDS
        return Did(closed, is_more=is_more, again_in=again_in)

    async def _tend(self, group: DueGroup) -> Did:
        if group.is_closed:
            await self._database.run(end(self._schema, [group.id]))
            return Did()
        if group.is_cancelling:
            return await self._cancel(group)
        again_in = _GUESTS_SECONDS if group.guests else None
        if not group.is_over:
            return Did(again_in=again_in)
        awaited = await hold(first_awaited(self._schema, group), self._database.run)
        if awaited is None:
            # Those before it may run again by now: an operator has retried them.
            counts = await hold(counted(self._schema, group.id, group.members), self._database.run)
            if isinstance(counts, GroupCounts):
                return await self._close(group.id, counts)
            awaited = counts
        await self._database.run(wait_for(self._schema, group.id, awaited))
        return Did(again_in=again_in)

    async def _close(self, group: int, counts: GroupCounts) -> Did:
        async with self._database.transaction() as transaction:
            closed = await hold(close(self._schema, group, counts), transaction.run)
        return Did(int(closed.job is not None))

    async def _cancel(self, group: DueGroup) -> Did:
        """All of it: what is not cancelled yet begins to run. Those that are busy are tried again soon."""
        cancelled = 0
        while True:
            async with self._database.transaction() as transaction:
                done = await hold(
                    cancel_some(self._schema, group.id, retention=self._retention), transaction.run
                )
            if not done:
                break
            cancelled += done
        return Did(cancelled, again_in=_BUSY_SECONDS)


def _sooner(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else min(one, other)


CLOSE_GROUPS = Chore(
    name="groups",
    make=lambda needs: GroupCloser(needs.database, needs.schema, needs.retention),
    shortest=1,
    longest=SWEEP_SECONDS,
    woken_by=(Channel.GROUP,),
    polls_unheard=True,
    fills_ready=True,
)
