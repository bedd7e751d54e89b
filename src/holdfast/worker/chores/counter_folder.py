"""Folds the tallies that settles write into counters."""

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.chores import fold
from holdfast.worker.chores.chore import Chore, Did

_FOLDED = 10_000
_LATE_COMMITS = 1_000


class CounterFolder:
    """Reports no count: it is not worth a line in the log."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema
        self._since: int | None = None

    async def once(self) -> Did:
        done = await self._database.run_one(fold(self._schema, since=self._since, limit=_FOLDED))
        # A look that finds nothing lets the next one begin at the first tally.
        self._since = None if done.seen is None else max(done.seen - _LATE_COMMITS, 0)
        return Did(is_more=done.folded == _FOLDED)


FOLD_COUNTERS = Chore(
    name="fold",
    make=lambda needs: CounterFolder(needs.database, needs.schema),
    shortest=5,
    longest=30,
)
