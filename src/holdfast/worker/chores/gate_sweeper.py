"""Looks after the gates: brings in whoever a new worker or a resumed queue lets pass, and takes permits back
from jobs that no worker can take.
"""

from time import monotonic

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.storage.limits import sweep_gate
from holdfast.storage.ring import LEFTOVERS, look_at_ring, park, park_gated
from holdfast.worker.chores.chore import Chore, Did

_PAGE = 2_000
_PAUSE = 1.0
_ROUND = 30.0
# To look for jobs that no worker can take reads every row: these looks take at most this share of the time.
_LOOKING = 0.01


class GateSweeper:
    """Goes through the keys that somebody waits for, page by page: at once when something has changed, and
    otherwise with pauses.
    """

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema
        self._after = ("", "")
        self._park_at = 0.0
        self._due_at = 0.0
        self._is_hurrying = False

    async def once(self) -> Did:
        if not self._is_hurrying and monotonic() < self._due_at - _PAUSE / 10:
            # Woken before its time: from the front, and without a pause until all was looked at.
            self._is_hurrying = True
            self._after, self._park_at = ("", ""), 0.0
        parked = await self._park() if self._after == ("", "") and monotonic() >= self._park_at else 0
        swept = await self._database.run_one(sweep_gate(self._schema, after=self._after, limit=_PAGE))
        is_over = swept.looked < _PAGE
        self._after = ("", "") if is_over else (swept.limit_name or "", swept.limit_key or "")
        # What has woken it again meanwhile is not told apart: after a hurried round another one follows soon.
        wait = _ROUND if is_over and not self._is_hurrying else _PAUSE
        self._is_hurrying = self._is_hurrying and not is_over
        self._due_at = monotonic() + wait
        return Did(parked + swept.knocked, is_more=self._is_hurrying, again_in=wait)

    async def _park(self) -> int:
        """Jobs at a gate, and those that have passed into the segment that is being filled: from the other
        segments the ring takes them away.
        """
        began = monotonic()
        ring = await self._database.run_one(look_at_ring(self._schema))
        parked = 0
        for parking in (
            park_gated(self._schema),
            park(self._schema, segment=ring.current, is_only_limited=True),
        ):
            while (moved := await self._database.run_one(parking)) == LEFTOVERS:
                parked += moved
            parked += moved
        self._park_at = monotonic() + (monotonic() - began) / _LOOKING
        return parked


SWEEP_GATE = Chore(
    name="sweep_gate",
    make=lambda needs: GateSweeper(needs.database, needs.schema),
    shortest=1,
    longest=30,
    woken_by=(Channel.LEADER,),
    polls_unheard=True,
)
