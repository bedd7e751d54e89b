"""The same pool for threads. What is decided is explained in `pool`; this is its other colour.

What differs: a thread of our own sweeps and cuts silent connections, since there is no loop to do it.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from time import monotonic
from typing import Any, Self
from weakref import WeakSet

import psycopg
import psycopg_pool
from psycopg.rows import TupleRow

from holdfast.errors import ConnectionFailed, DatabaseClosed, PoolTimeout
from holdfast.postgres.availability import (
    CHECK_SECONDS,
    CLOSE_SECONDS,
    NEVER,
    POOL_NAME,
    RETRY_SECONDS,
    Availability,
)
from holdfast.postgres.lenient_rows import UNREADABLE, read_leniently
from holdfast.postgres.options import PoolSettings
from holdfast.postgres.read_only import is_read_only
from holdfast.postgres.reply_timeouts import Watchdog, can_be_read
from holdfast.postgres.rows import has_rows
from holdfast.postgres.session_settings import Life, SessionSettings
from holdfast.postgres.sqlstate import meaning
from holdfast.postgres.translate import NoReply, one_line

_numbers = count(1)

logger = logging.getLogger("holdfast.postgres")
_TICK = 0.5


class BlockingPooledConnection(psycopg.Connection[TupleRow]):
    is_holdfast = True
    life: Life

    @classmethod
    def connect(  # type: ignore[override]  # only called by the pool, which passes our own arguments on
        cls, conninfo: str = "", *, availability: Availability, **kwargs: Any
    ) -> Self:
        try:
            return super().connect(conninfo, **kwargs)
        except psycopg.Error as error:
            availability.lost(one_line(error))
            raise


class BlockingPool:
    def __init__(
        self, conninfo: str, settings: PoolSettings, session: SessionSettings, availability: Availability
    ) -> None:
        self._settings = settings
        self._session = session
        self._availability = availability
        self._lock = threading.Lock()
        self._connections: WeakSet[BlockingPooledConnection] = WeakSet()
        self._lent: set[BlockingPooledConnection] = set()
        self._distrusted_until = float("-inf")
        self._watchdog = Watchdog()
        self._stop = threading.Event()
        self._pool = psycopg_pool.ConnectionPool(
            conninfo,
            connection_class=BlockingPooledConnection,
            kwargs={
                "autocommit": True,
                "prepare_threshold": session.prepare_threshold,
                "availability": availability,
            },
            min_size=settings.pool_min_conns,
            max_size=settings.pool_max_conns,
            timeout=settings.pool_timeout.total_seconds(),
            max_idle=settings.pool_max_conn_idle_time.total_seconds(),
            max_lifetime=NEVER,
            configure=self._configure,
            reconnect_timeout=RETRY_SECONDS,
            reconnect_failed=self._go_on,
            name=f"{POOL_NAME}-blocking-{next(_numbers)}",
            open=False,
        )
        self._keeper = threading.Thread(target=self._keep, name=f"{self._pool.name}-keeper", daemon=True)

    def open(self) -> None:
        """Until the least number of connections is there: else the first caller would make one more."""
        try:
            self._pool.open(wait=True, timeout=self._settings.pool_timeout.total_seconds())
        except psycopg_pool.PoolTimeout:
            raise self._nothing_to_lend() from None
        except BaseException:
            self._pool.close(CLOSE_SECONDS)
            raise
        self._availability.tell_of_silence(self)
        self._keeper.start()

    def silent_since(self, since: float) -> None:  # noqa: ARG002  # what began before then is over soonest
        """The keeper's next tick cuts what waits for long enough; what lies idle is not lent again."""
        self._distrusted_until = monotonic()
        self._watchdog.hasten(CHECK_SECONDS)

    def close(self) -> None:
        """Connections that are lent out are closed when they come back."""
        self._stop.set()
        self._keeper.join(CHECK_SECONDS)
        self._pool.close(CLOSE_SECONDS)

    @contextmanager
    def lend(self) -> Iterator[BlockingPooledConnection]:
        connection = self._take()
        with self._lock:
            self._lent.add(connection)
        try:
            yield connection
        finally:
            with self._lock:
                self._lent.discard(connection)
            connection.life.used_at = monotonic()
            if connection.life.is_over:
                connection.close()
            self._pool.putconn(connection)

    def send(
        self, connection: BlockingPooledConnection, text: bytes, params: Sequence[object] | None = None
    ) -> list[TupleRow]:
        """Send something and wait for its rows, within a bound. Raises psycopg's errors."""
        seconds = self._settings.reply_timeout.total_seconds()
        sent_at = monotonic()
        with self._watchdog.replies_within(connection, seconds) as bound:
            try:
                # Times and numbers are read faster as bytes; what has no parameters may be several commands.
                cursor = psycopg.RawCursor(connection)
                cursor.execute(text, params, binary=bool(params))
                return _taken_from(cursor)
            except psycopg.Error as error:
                reason = NoReply(seconds) if bound.was_reached else error
                failure = meaning(error)
                if failure.is_session_over:
                    connection.close()
                    self._note(connection, reason, is_general=bound.was_reached or failure.is_wrong_server)
                if bound.was_reached:
                    self._availability.fell_silent(sent_at)
                raise reason from error.__cause__

    def roll_back(self, connection: BlockingPooledConnection) -> None:
        """Never raises for a lost connection: that is a rollback, too."""
        if connection.closed:
            return
        try:
            with self._watchdog.replies_within(connection, CHECK_SECONDS):
                connection.rollback()
        except psycopg.Error:
            connection.close()
        if is_read_only(connection):
            connection.close()
            self._distrusted_until = monotonic()

    def sweep(self) -> None:
        """Replace idle connections that ended or have lived long enough, before somebody needs them.

        The first look may race with a thread that takes a connection: it only decides to look properly.
        """
        with self._lock:
            idle = [connection for connection in self._connections if connection not in self._lent]
        stats = self._pool.get_stats()
        if any(self._looks_stale(connection) for connection in idle):
            for _ in range(stats["pool_available"]):
                self._turn()
        elif stats["pool_size"] < self._settings.pool_min_conns:
            self._go_on(self._pool)

    def _turn(self) -> None:
        with suppress(psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed):
            connection = self._pool.getconn(timeout=0.05)
            try:
                if self._looks_stale(connection) and not self._is_fit(connection):
                    connection.close()
            finally:
                self._pool.putconn(connection)

    def _keep(self) -> None:
        period = self._settings.pool_health_check_period.total_seconds()
        swept_at = monotonic()
        while not self._stop.wait(min(_TICK, period)):
            self._watchdog.bite()
            if monotonic() - swept_at >= period:
                try:
                    self.sweep()
                except Exception:  # without it no reply would have a bound any more
                    logger.exception("idle connections could not be looked after")
                swept_at = monotonic()

    def _take(self) -> BlockingPooledConnection:
        deadline = monotonic() + self._settings.pool_timeout.total_seconds()
        was_full = self._is_full()
        while True:
            try:
                connection = self._pool.getconn(timeout=max(0.0, deadline - monotonic()))
            except psycopg_pool.PoolTimeout:
                raise self._nothing_to_lend(is_full=was_full) from None
            except psycopg_pool.PoolClosed:
                raise DatabaseClosed("this BlockingDatabase is closed") from None
            is_fit = False
            try:
                is_fit = self._is_fit(connection)
            finally:
                if not is_fit:
                    connection.close()
                    self._pool.putconn(connection)
            if is_fit:
                return connection

    def _nothing_to_lend(self, *, is_full: bool = False) -> PoolTimeout | ConnectionFailed:
        return self._availability.nothing_to_lend(
            self._settings.pool_timeout.total_seconds(),
            max_size=self._settings.pool_max_conns,
            is_full=is_full or self._is_full(),
        )

    def _is_full(self) -> bool:
        with self._lock:
            made = sum(not connection.closed for connection in self._connections)
        return made >= self._settings.pool_max_conns

    def _looks_stale(self, connection: BlockingPooledConnection) -> bool:
        life = connection.life
        try:
            return (
                connection.closed
                or life.is_over
                or life.opened_at <= self._distrusted_until
                or can_be_read(connection)
            )
        except psycopg.Error:  # closed in between
            return True

    def _is_fit(self, connection: BlockingPooledConnection) -> bool:
        life = connection.life
        if connection.closed or life.is_over or life.opened_at <= self._distrusted_until:
            return False
        if life.is_fresh and not can_be_read(connection):
            return True
        with self._watchdog.replies_within(connection, CHECK_SECONDS) as bound:
            try:
                connection.execute("")
            except psycopg.Error as error:
                self._note(connection, error, is_general=bound.was_reached)
                return False
        return True

    def _note(self, connection: BlockingPooledConnection, error: psycopg.Error, *, is_general: bool) -> None:
        if is_general:
            self._distrusted_until = monotonic()
        if meaning(error).is_outcome_unknown:
            self._availability.lost(one_line(error), opened_at=connection.life.opened_at)

    def _configure(self, connection: BlockingPooledConnection) -> None:
        connection.life = Life.begin(self._settings)
        try:
            # A pooler lets us in whether or not its server is there: only an answer ends a loss.
            if self._session.opening or self._availability.is_lost:
                with self._watchdog.replies_within(connection, CHECK_SECONDS):
                    connection.execute(self._session.opening)
        except psycopg.Error as error:
            self._availability.lost(one_line(error))
            connection.close()
            raise
        with self._lock:
            self._connections.add(connection)
        self._availability.works()

    @staticmethod
    def _go_on(pool: "psycopg_pool.ConnectionPool[BlockingPooledConnection]") -> None:
        with suppress(psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed):
            pool.putconn(pool.getconn(timeout=0.01))


def _taken_from(cursor: psycopg.RawCursor[TupleRow]) -> list[TupleRow]:
    reply = cursor.pgresult
    if not has_rows(reply):
        return []
    try:
        return cursor.fetchall()
    except UNREADABLE:
        return read_leniently(reply, cursor.connection)
