"""Says once that connections were lost and once that they are back, however many tries lie in between and
however many pools of a process there are.
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol
from weakref import WeakSet

from holdfast.errors import ConnectionFailed, PoolTimeout
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.pooler_detection import PoolerMode, tell

logger = logging.getLogger("holdfast.postgres")

CHECK_SECONDS: Final = 5.0
"""How long an idle connection may take to say that it is alive."""
CLOSE_SECONDS: Final = 1.0
"""How long closing waits for a connection that is just being made."""


class Silenced(Protocol):
    def silent_since(self, since: float) -> None:
        """Give up whatever waits since before then, and trust no connection that is older than now."""


class Availability:
    """Whether the database can be reached, as far as this process has seen.

    Safe to use from threads without a lock: a race costs at most a repeated line.
    """

    def __init__(self, where: str, without_secrets: Callable[[str], str] = str) -> None:
        self._where = where
        self._without_secrets = without_secrets
        self._lost_at: float | None = None
        self._last_loss = float("-inf")
        self._last_success = float("-inf")
        self._last_noted = float("-inf")
        self._pooler: PoolerMode | None = None
        self._on_silence: WeakSet[Silenced] = WeakSet()
        self.reason = ""

    @classmethod
    def of(cls, dsn: Dsn) -> "Availability":
        """For one pool, or for several that a reader of the log takes for one."""
        return cls(dsn.where, dsn.without_secrets)

    @property
    def is_lost(self) -> bool:
        return self._lost_at is not None

    def lost(self, reason: str, *, opened_at: float | None = None, tried_at: float | None = None) -> None:
        """A connection was lost that was opened at `opened_at`, or none could be made in an attempt that
        began at `tried_at`.

        A server that restarts takes all connections with it, and they are noticed one by one: those
        opened before the last loss belong to it. And a pooler may refuse a login that came during an outage
        when others have worked already: an attempt that began before the last success says nothing new.
        """
        self.reason = self._without_secrets(reason)
        self._last_noted = monotonic()
        is_of_the_last_loss = opened_at is not None and opened_at <= self._last_loss
        is_overtaken = tried_at is not None and tried_at <= self._last_success
        if self._lost_at is None and not is_of_the_last_loss and not is_overtaken:
            self._lost_at = self._last_loss = monotonic()
            logger.warning("connection to %s lost, reconnecting: %s", self._where, self.reason)

    def tell_of_silence(self, pool: "Silenced") -> None:
        """From now on: what one pool has found out, the others need not wait for."""
        self._on_silence.add(pool)

    def fell_silent(self, since: float) -> None:
        """Nothing has come back from the server on a connection since then. Called from any thread."""
        for pool in list(self._on_silence):
            pool.silent_since(since)

    @property
    def pooler(self) -> PoolerMode | None:
        """What one pool has found between us and Postgres, so that the others need not look."""
        return self._pooler

    def behind(self, pooler: PoolerMode) -> None:
        """What was found between us and Postgres."""
        if pooler is not self._pooler:
            self._pooler = pooler
            tell(pooler, self._where)

    def failed(self, seconds: float) -> ConnectionFailed:
        return ConnectionFailed(f"no connection to {self._where} within {seconds:g} s: {self.reason}")

    def nothing_to_lend(
        self, seconds: float, *, max_size: int, is_full: bool
    ) -> PoolTimeout | ConnectionFailed:
        """Why a pool had no connection to lend for so long. One that has made all the connections that it may
        (`is_full`) has lent them out; any other could not connect, although other pools may well have
        connections.
        """
        if is_full and not self.is_lost:
            return PoolTimeout(seconds, max_size=max_size)
        is_reason_old = monotonic() - self._last_noted > seconds
        if not self.is_lost:
            self.lost("the server has not answered" if is_reason_old else self.reason)
        return self.failed(seconds)

    def no_answer(self, seconds: float) -> ConnectionFailed | TimeoutError:
        """For a caller that has stopped waiting for an answer."""
        if self.is_lost:
            return self.failed(seconds)
        return TimeoutError(f"{self._where} did not answer within {seconds:.3g} s")

    def works(self) -> None:
        """Call it when a new connection was made; after a loss, only when the server has answered on it."""
        self._last_success = monotonic()
        if self._lost_at is not None:
            seconds = monotonic() - self._lost_at
            self._lost_at = None
            # As loud as the loss: a log that shows the one must show the other.
            logger.warning("connection to %s is back after %.1f s", self._where, seconds)
