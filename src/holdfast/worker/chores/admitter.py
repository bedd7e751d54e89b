"""Admits jobs that wait at a gate, for as many as their limits have permits free."""

import math
from dataclasses import dataclass
from time import monotonic

from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.storage.limits import admit, look_at_gate
from holdfast.storage.shared_limits import Turn
from holdfast.worker.chores.chore import Chore, Did
from holdfast.worker.chores.gate_sweeper import SWEEP_GATE

# A transaction that commits late leaves knocks with smaller ids than the last that was seen: a look that
# finds nothing is followed by one from the beginning, but no more often than this.
_FULL_LOOK = 0.25
_LOCKED_ELSEWHERE = 0.02


@dataclass(slots=True)
class _Progress:
    """How far one limit was looked at: up to which knock and which turn; when it wants another look."""

    knock: int = 0
    turn: int = 0
    due_at: float = math.inf


class Admitter:
    """Two of them at once are harmless: whoever admits has the limit locked."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema
        self._known: dict[str, _Progress] = {}
        self._is_new = True
        self._full_at = 0.0

    async def once(self) -> Did:
        began = monotonic()
        is_full = False
        limits = await self._look({name: known.knock for name, known in self._known.items()})
        if not limits and began >= self._full_at:
            is_full = True
            self._full_at = began + _FULL_LOOK
            limits = await self._look(dict.fromkeys(self._known, 0))
        limits += [
            name for name, known in self._known.items() if known.due_at <= began and name not in limits
        ]
        turns = [await self._admit(name, is_full=is_full) for name in limits]
        due_at = min((known.due_at for known in self._known.values()), default=math.inf)
        if not limits and not is_full:
            due_at = min(due_at, self._full_at)
        return Did(
            sum(turn.admitted for turn in turns),
            is_more=any(turn.is_more for turn in turns),
            again_in=None if due_at == math.inf else max(due_at - monotonic(), 0.001),
        )

    async def _look(self, known: dict[str, int]) -> list[str]:
        looking = look_at_gate(self._schema, known, with_states=self._is_new)
        found = await self._database.run(looking)
        self._is_new = False
        return found

    async def _admit(self, limit: str, *, is_full: bool) -> Turn:
        known = self._known.setdefault(limit, _Progress())
        since, since_pass = (0, 0) if is_full else (known.knock, known.turn)
        async with self._database.transaction() as transaction:
            turn = await hold(admit(self._schema, limit, since=since, since_pass=since_pass), transaction.run)
        known.knock = max(known.knock, turn.last or 0)
        known.turn = turn.first or known.turn
        again_in = _LOCKED_ELSEWHERE if turn.again_in == 0.0 else turn.again_in
        known.due_at = math.inf if again_in is None else monotonic() + again_in
        return turn


ADMIT = Chore(
    name="admit",
    make=lambda needs: Admitter(needs.database, needs.schema),
    shortest=1,
    longest=30,
    woken_by=(Channel.GATE, SWEEP_GATE),
    polls_unheard=True,
    fills_ready=True,
)
