"""Counts new jobs, so that an enqueue need not: in the order of their ids, up to the last id that was given
when no transaction that had drawn one by then is still open.
"""

from dataclasses import dataclass

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.statistics import EnqueueTop, count_enqueued, enqueue_open, enqueue_top
from holdfast.worker.chores.chore import Chore, Did

_COUNTED = 50_000
_PACE = 5.0
_OPEN_PACE = 2.0
_PREPARED = "-1/"


@dataclass(slots=True)
class _Range:
    """Jobs to be counted, and the transactions that may yet add one to them."""

    to: EnqueueTop
    open: frozenset[str]


class EnqueueCounter:
    """Reports no count: it is not worth a line in the log.

    A transaction takes an id when it enqueues, and its job appears when it commits, which may be hours later.
    So the range up to the newest id is counted once all transactions that have one of its ids have ended. The
    order matters: first the id, then who is open, then the count, each by a statement of its own.
    """

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema
        self._range: _Range | None = None

    async def once(self) -> Did:
        if self._range is None:
            top = await self._database.run_one(enqueue_top(self._schema))
            if top.top <= top.mark:
                return Did()
            self._range = _Range(top, await self._open())
        else:
            # Who is not open any more has ended; who is prepared may be anyone of them under another name.
            now_open = await self._open()
            self._range.open = now_open & self._range.open | _prepared(now_open)
        if self._range.open:
            return Did(again_in=_OPEN_PACE)
        return await self._count(self._range.to)

    async def _open(self) -> frozenset[str]:
        return await self._database.run_one(enqueue_open(self._schema))

    async def _count(self, to: EnqueueTop) -> Did:
        [counted] = await self._database.run(
            count_enqueued(self._schema, mark=to.mark, top=to.top, limit=_COUNTED)
        ) or [0]
        self._range = None
        return Did(is_more=counted == _COUNTED, again_in=_PACE)


def _prepared(transactions: frozenset[str]) -> frozenset[str]:
    return frozenset(each for each in transactions if each.startswith(_PREPARED))


COUNT_ENQUEUED = Chore(
    name="count enqueued",
    make=lambda needs: EnqueueCounter(needs.database, needs.schema),
    shortest=_PACE,
    longest=10,
)
