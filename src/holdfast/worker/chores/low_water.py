"""Where a chore that works through a table in order of time begins its next look."""

from datetime import datetime, timedelta
from time import monotonic

from holdfast.storage.chores import Expiry, Pass, Promoted, Pruned

FULL_LOOK = 30.0
_LATE_COMMITS = timedelta(seconds=2)


class LowWater:
    """A little before the last row seen, because transactions may commit late; now and then from the
    beginning.
    """

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._full_at = 0.0

    def next(self) -> datetime | None:
        """None: from the beginning."""
        if self._since is None or monotonic() >= self._full_at:
            self._full_at = monotonic() + FULL_LOOK
            return None
        return self._since - _LATE_COMMITS

    def saw(self, done: Promoted | Pass | Expiry | Pruned) -> None:
        if done.seen is not None:
            self._since = done.seen if self._since is None else max(self._since, done.seen)
