"""Turns the ring of segments that ready jobs live in, and truncates the segments behind it."""

import asyncio
from time import monotonic

from holdfast.domain.ring import SEGMENTS, Pace, next_moves
from holdfast.errors import Conflict
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.ring import (
    LEFTOVERS,
    close,
    gather,
    look_at_ring,
    park,
    reopen,
    ring_version,
    truncate,
    turn,
)
from holdfast.worker.chores.chore import Chore, Did, Sign

# Claims learn with their next answer that a segment is closed: only those under way still hold it.
_TRIES = 40
_PAUSE = 0.01
# After that, only a transaction that stays open can still hold it, not a claim.
_TRY_AGAIN = 5.0
# A look for jobs that no worker can claim reads every row: together these looks take at most this share of
# the time.
_LOOKING = 0.02


class RingTurner:
    """A drained segment that cannot be truncated, because a transaction that enqueued into it is still open,
    stays closed: otherwise every claim would step over its dead rows until that transaction ends. Should a
    row appear in the segment, it is opened again.
    """

    def __init__(self, database: Database, schema: Schema, pace: Pace | None = None) -> None:
        self._database = database
        self._schema = schema
        self._pace = pace or Pace()
        self._try_at: dict[int, float] = {}
        self._park_at: dict[int, float] = {}

    async def once(self) -> Did:
        ring = await self._database.run_one(look_at_ring(self._schema))
        moves = next_moves(ring, self._pace)
        kept = ring.closed if ring.closed in moves.clear else None
        if ring.closed is not None and kept is None:
            await self._reopen(ring.closed)
        for segment in moves.clear:
            if monotonic() >= self._try_at.get(segment, 0.0):
                kept = await self._clear(segment, kept)
        if kept is not None:
            await self._close(kept)
        if moves.turn_to is not None:
            await self._database.run(turn(self._schema, to=moves.turn_to, version=await self._version()))
        elif moves.gather is not None:
            await self._empty(moves.gather)
        for segment in SEGMENTS:
            has_rows = ring.sizes[segment] and not ring.drained[segment]
            if segment != ring.current and has_rows and monotonic() >= self._park_at.get(segment, 0.0):
                await self._park(segment)
        is_busy = bool(moves.clear) or moves.turn_to is not None or moves.gather is not None
        return Did(again_in=0.5 if is_busy else None)

    async def _version(self) -> int:
        return await self._database.run_one(ring_version(self._schema))

    async def _park(self, segment: int) -> None:
        began = monotonic()
        while await self._database.run_one(park(self._schema, segment=segment)) == LEFTOVERS:
            began = monotonic()
        took = monotonic() - began
        self._park_at[segment] = monotonic() + took / _LOOKING

    async def _empty(self, segment: int) -> None:
        """Parks what no worker can claim; copies the rest, up to a bound, to where claims find it."""
        await self._park(segment)
        await self._database.run_one(gather(self._schema, segment=segment))

    async def _clear(self, segment: int, kept: int | None) -> int | None:
        """Close, truncate, open. Answers the segment to keep closed: this one, if a transaction holds it."""
        if kept is not None and kept != segment:
            await self._reopen(kept)
        if not await self._close(segment):
            return kept
        for _ in range(_TRIES):
            if await self._is_done_with(segment):
                await self._reopen(segment)
                return None if kept == segment else kept
            await asyncio.sleep(_PAUSE)
        self._try_at[segment] = monotonic() + _TRY_AGAIN
        return segment

    async def _close(self, segment: int) -> bool:
        closing = close(self._schema, segment=segment, version=await self._version())
        return bool(await self._database.run(closing))

    async def _reopen(self, segment: int) -> None:
        await self._database.run(reopen(self._schema, segment=segment))

    async def _is_done_with(self, segment: int) -> bool:
        try:
            await self._database.run(truncate(self._schema, segment=segment))
        except Conflict:
            return False
        return True


TURN_RING = Chore(
    name="ring",
    make=lambda needs: RingTurner(needs.database, needs.schema),
    shortest=1,
    longest=30,
    woken_by=(Sign.MANY_CLAIMED,),
)
