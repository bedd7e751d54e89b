"""Folds the tallies of failed runs into groups of failures, and forgets those of long ago."""

from time import monotonic

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.failures import fold_failures, prune_failures
from holdfast.worker.chores.chore import Chore, Did

_FOLDED = 10_000
_LATE_COMMITS = 1_000
_PRUNE_SECONDS = 600.0


class FailureFolder:
    """Reports no count: each of these runs has a line in the log already."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema
        self._since: int | None = None
        self._prune_at = 0.0

    async def once(self) -> Did:
        done = await self._database.run_one(fold_failures(self._schema, since=self._since, limit=_FOLDED))
        # A look that finds nothing lets the next one begin at the first tally.
        self._since = None if done.seen is None else max(done.seen - _LATE_COMMITS, 0)
        if done.folded < _FOLDED and monotonic() >= self._prune_at:
            self._prune_at = monotonic() + _PRUNE_SECONDS
            await self._database.run(prune_failures(self._schema))
        return Did(is_more=done.folded == _FOLDED)


FOLD_FAILURES = Chore(
    name="fold failures",
    make=lambda needs: FailureFolder(needs.database, needs.schema),
    shortest=2,
    longest=10,
)
