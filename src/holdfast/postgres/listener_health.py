"""Whether the listener listens, and one log line each time that changes."""

import logging
import time
from dataclasses import dataclass
from datetime import timedelta

import psycopg

from holdfast.domain.duration import compact
from holdfast.errors import HoldfastError

logger = logging.getLogger("holdfast.postgres")


@dataclass(frozen=True, slots=True)
class ListenerHealth:
    """`is_listening` is about the connection; a single channel may be refused all the same."""

    is_listening: bool
    since: float
    """When `is_listening` became what it is, on `time.monotonic()`."""
    reconnects: int
    last_error: str | None
    """Why it does not listen, or what went wrong last."""
    wanted: frozenset[str]
    in_force: frozenset[str]

    @property
    def missing(self) -> frozenset[str]:
        """Channels on which nothing arrives now."""
        return self.wanted - self.in_force

    @property
    def is_whole(self) -> bool:
        return self.is_listening and not self.missing


class ListenerState:
    """Says each loss and each recovery once, however many tries lie between them."""

    def __init__(self, last_error: str | None = None) -> None:
        self.is_listening = False
        self.since = time.monotonic()
        self.last_error = last_error
        self._times_found = 0
        self._is_loss_said = False

    @property
    def reconnects(self) -> int:
        return max(0, self._times_found - 1)

    def has_listened_for(self, length: timedelta) -> bool:
        return self.is_listening and time.monotonic() - self.since >= length.total_seconds()

    def found(self) -> None:
        if self._is_loss_said:
            away = compact(timedelta(seconds=time.monotonic() - self.since))
            logger.warning("wake-ups are back after %s", away)
        self._is_loss_said = False
        self._times_found += 1
        self._turn(is_listening=True)

    def lost(self, error: Exception) -> None:
        self._turn(is_listening=False)
        self.last_error = _reason(error)
        if not self._is_loss_said:
            self._is_loss_said = True
            is_expected = isinstance(error, HoldfastError | psycopg.Error | OSError)
            logger.warning(
                "wake-ups are missing, so work is found by polling until they are back: %s",
                self.last_error,
                exc_info=None if is_expected else error,
            )

    def left(self) -> None:
        self._turn(is_listening=False)

    def refused(self, channel: str, error: Exception, *, is_news: bool) -> None:
        self.last_error = f"channel {channel!r} is refused: {_reason(error)}"
        if is_news:
            logger.warning("wake-ups are missing for now, %s", self.last_error)

    def accepted(self, channel: str) -> None:
        logger.warning("wake-ups are back for channel %r", channel)

    def _turn(self, *, is_listening: bool) -> None:
        if self.is_listening != is_listening:
            self.is_listening = is_listening
            self.since = time.monotonic()


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
