"""Folds the tallies that settles write into counters."""

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.chores import fold
from holdfast.worker.chores.chore import Chore, Did

_FOLDED = 10_000
_LATE_COMMITS = 1_000
_PACE = 5.0


class CounterFolder:
    """Reports no count: it is not worth a line in the log."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema
        self._since: int | None = None
        self._since_enqueued: int | None = None

    async def once(self) -> Did:
        done = await self._database.run_one(
            fold(self._schema, since=self._since, since_enqueued=self._since_enqueued, limit=_FOLDED)
        )
        # A look that finds nothing lets the next one begin at the first tally.
        self._since = _behind(done.seen)
        self._since_enqueued = _behind(done.seen_enqueued)
        folded = max(done.folded, done.folded_enqueued)
        return Did(is_more=folded == _FOLDED, again_in=_PACE if folded else None)


def _behind(seen: int | None) -> int | None:
    return None if seen is None else max(seen - _LATE_COMMITS, 0)


FOLD_COUNTERS = Chore(
    name="fold",
    make=lambda needs: CounterFolder(needs.database, needs.schema),
    shortest=_PACE,
    longest=10,
)
