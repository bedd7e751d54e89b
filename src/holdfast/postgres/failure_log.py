"""Says why something that is tried again and again keeps failing: once for each reason, again when the reason
changes, and once when it is over. One log line for an outage, however many tries it takes.
"""

import logging
from time import monotonic

from holdfast.errors import ConnectionFailed, ConnectionLost, DatabaseError
from holdfast.postgres.translate import one_line

# A reason that comes back after so long is news again; before that, two reasons are only taking turns.
_NEWS_AGAIN_SECONDS = 60.0

# The pool says these itself, once for all that wait for it.
_TOLD_BY_THE_POOL = (ConnectionFailed, ConnectionLost)


class FailureLog:
    """For one loop. `doing` completes the sentences "… fails and is retried" and "… works again"."""

    def __init__(self, logger: logging.Logger, doing: str) -> None:
        self._logger = logger
        self._doing = doing
        self._since: float | None = None
        self._reason: object = None
        self._met_at: dict[object, float] = {}
        self._is_told = False

    def failed(self, error: BaseException) -> bool:
        """Note a failure, and say it if it is news. Answers whether it is."""
        now = monotonic()
        if self._since is None:
            self._since = now
        reason = _reason_of(error)
        is_changed, self._reason = reason != self._reason, reason
        last = self._met_at.get(reason)
        self._met_at[reason] = now
        is_news = is_changed and (last is None or now - last >= _NEWS_AGAIN_SECONDS)
        if not is_news or isinstance(error, _TOLD_BY_THE_POOL):
            self._logger.debug("%s fails and is retried: %s", self._doing, one_line(error))
            return False
        self._is_told = True
        name = type(error).__name__
        text = f"{name}: {one_line(error)}" if str(error).strip() else name
        self._logger.warning("%s fails and is retried: %s", self._doing, text)
        return True

    def worked(self) -> None:
        """Note a success: the end of a failure is said if its beginning was. Cheap when there was none."""
        if self._since is None:
            return
        seconds = monotonic() - self._since
        # As loud as the beginning: a log that shows the one must show the other.
        level = logging.WARNING if self._is_told else logging.DEBUG
        self._since, self._reason, self._is_told = None, None, False
        self._met_at.clear()
        self._logger.log(level, "%s works again after %.1f s", self._doing, seconds)


def _reason_of(error: BaseException) -> object:
    """Postgres's own code where there is one: its sentences name process ids, times and rows. The text of a
    timeout names how long was waited, which may differ each time.
    """
    if isinstance(error, DatabaseError):
        return type(error), error.sqlstate or ""
    if isinstance(error, TimeoutError):
        return type(error)
    return type(error), one_line(error)
