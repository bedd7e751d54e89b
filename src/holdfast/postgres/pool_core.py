"""What a pool of connections decides, without any I/O of its own: what `Pool` and `BlockingPool` share.

Bookkeeping happens under a lock and never waits. What needs the server is written as a generator that yields
steps (connect, ask, roll back, pause, queue); the pools carry them out, awaited or blocking, and send back
the answer or throw the error.

Callers wait in the order in which they came. One tender per pool opens connections while there are fewer than
wanted, one at a time: most statements are over sooner than another connection is made, so opening
as many as there are waiting callers would fill the server with connections that no caller needs.
"""

import logging
import random
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Final, Generic, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from holdfast.domain.backoff import Exponential
from holdfast.errors import ConnectionFailed, DatabaseClosed, PoolTimeout, StatementFailed
from holdfast.postgres.connection_target import ConnectionTarget
from holdfast.postgres.connection_trust import ConnectionTrust
from holdfast.postgres.pool_steps import Ask, Connect, Queue, RollBack, Sleep, Waiter, Work
from holdfast.postgres.pooled_connection import Pooled
from holdfast.postgres.read_only import is_read_only
from holdfast.postgres.session_settings import SessionSettings
from holdfast.postgres.translate import NoReply, one_line

logger = logging.getLogger("holdfast.postgres")

_RECONNECT: Final = Exponential(timedelta(milliseconds=100), cap=timedelta(seconds=1))

C = TypeVar("C", bound=Pooled)


class PoolCore(Generic[C]):
    def __init__(
        self,
        target: ConnectionTarget,
        session: SessionSettings,
        *,
        call_tender: Callable[[], object],
        closed: str,
    ) -> None:
        """`call_tender` ends a `Sleep`; `closed` tells a caller what to do about a closed pool."""
        self._settings = target.settings
        self._session = session
        self._availability = target.availability
        self.trust = ConnectionTrust(target.availability)
        self._call_tender = call_tender
        self._closed_text = closed
        # Reentrant: the garbage collector may close a forgotten pool in the middle of anything.
        self._lock = threading.RLock()
        # Given back last, lent first: those at the front are left alone for long enough to be closed.
        self._idle: list[C] = []
        self._waiters: OrderedDict[Waiter[C], None] = OrderedDict()
        self._size = 0
        self._opening = 0
        self._failures = 0
        self._sweep_at = monotonic() + self._period
        self.is_closed = False

    @property
    def size(self) -> int:
        """Connections that are idle, lent or just being made."""
        return self._size

    @property
    def idle(self) -> tuple[C, ...]:
        return tuple(self._idle)

    @property
    def waiting(self) -> int:
        """Callers in the queue."""
        return len(self._waiters)

    # Lending.

    def take_at_once(self) -> C | None:
        """The connection that was used last, if it needs no question before it is lent."""
        with self._lock:
            if self._idle and self.trust.is_surely_fit(self._idle[-1]):
                return self._idle.pop()
        return None

    def take(self) -> Work[C]:
        """A connection that is fit to be used. The caller gives it back, whatever happens."""
        deadline = monotonic() + self._settings.pool_timeout.total_seconds()
        was_full = self._is_full
        while True:
            connection: C | None = yield Queue(max(0.0, deadline - monotonic()))
            if connection is None:
                raise self._nothing_to_lend(was_full=was_full)
            if (yield from self._checked(connection)):
                return connection

    def give_back(self, connection: C) -> None:
        """To the next caller in the queue. One that was left in the middle of something is closed: a task
        may be cancelled at any point, and closing ends everything that it had begun.
        """
        now = connection.life.used_at = monotonic()
        is_ready = connection.pgconn.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if is_ready and now < connection.life.expires_at and not self.is_closed:
                self._put(connection)
                return
        self._forget(connection)

    def join_queue(self, waiter: Waiter[C]) -> None:
        with self._lock:
            if self.is_closed:
                raise DatabaseClosed(self._closed_text)
            if self._idle:
                waiter.connection = self._idle.pop()
                waiter.wake()
                return
            self._waiters[waiter] = None
            if self._is_short:
                self._call_tender()

    def leave_queue(self, waiter: Waiter[C]) -> C | None:
        """What the waiter was handed, which is now the caller's."""
        with self._lock:
            self._waiters.pop(waiter, None)
            connection, waiter.connection = waiter.connection, None
            return connection

    # Opening, looking after and closing.

    def open(self) -> Work[None]:
        """Until the minimum is there, so that an unreachable server is noticed here."""
        deadline = monotonic() + self._settings.pool_timeout.total_seconds()
        while self._reserve():
            yield from self._open_one()
            if self._failures and monotonic() >= deadline:
                raise self._nothing_to_lend()

    def tend(self) -> Work[None]:
        """For as long as the pool is open: make missing connections, close those that are not needed."""
        while not self.is_closed:
            try:
                if self._reserve():
                    yield from self._open_one()
                elif monotonic() >= self._sweep_at:
                    yield from self.sweep()
                else:
                    yield Sleep(max(0.0, self._sweep_at - monotonic()))
            except Exception:  # without a tender no caller would get a connection any more
                logger.exception("the connections of a pool could not be looked after")
                yield Sleep(1.0, is_rest=True)

    def sweep(self) -> Work[None]:
        """Replace idle connections that have ended or lived long enough, before a caller needs them, and
        close those that were not used for long.
        """
        self._sweep_at = monotonic() + self._period
        self._close_unused()
        for connection in self._take_stale():
            if (yield from self._checked(connection)):
                self.give_back(connection)

    def close(self) -> None:
        """Connections that are lent are closed when they come back; callers that wait get an error."""
        with self._lock:
            self.is_closed = True
            idle, self._idle = self._idle, []
            waiters, self._waiters = self._waiters, OrderedDict()
        for connection in idle:
            self._forget(connection)
        for waiter in waiters:
            waiter.wake()
        self._call_tender()

    # Ending transactions.

    def why_not_commit(self, connection: C) -> StatementFailed | None:
        """Why a transaction can only be rolled back, or None. The server answers the COMMIT of a failed
        one with a rollback that looks like success.
        """
        status = connection.pgconn.transaction_status
        if status in (TransactionStatus.INERROR, TransactionStatus.UNKNOWN):
            return StatementFailed("commit: a statement of this transaction failed, so it was rolled back")
        return None

    def roll_back(self, connection: C) -> Work[None]:
        """Never raises for a lost connection: that is a rollback, too."""
        if connection.closed:
            return
        try:
            yield RollBack(connection)
        except psycopg.Error:
            connection.pgconn.finish()
        if is_read_only(connection):
            connection.pgconn.finish()
            self.trust.distrust()

    def _open_one(self) -> Work[None]:
        """Make the connection that `_reserve` made room for, or wait a while before the next try."""
        made: C | None = None
        is_ready = False
        tried_at = monotonic()
        try:
            made = yield Connect()
            # A pooler lets us in whether or not its server is there: only an answer ends a loss.
            if self._session.opening or self._availability.is_lost:
                yield Ask(made, self._session.opening)
            is_ready = True
        except (psycopg.Error, OSError) as error:
            self._failures += 1
            self._availability.lost(one_line(error), tried_at=tried_at)
        finally:
            self._opening -= 1
            if not is_ready:
                self._forget(made)
        if made is not None and is_ready:
            self._failures = 0
            self._availability.works()
            self.give_back(made)
            return
        delay = _RECONNECT.delay(self._failures, random.random())  # noqa: S311  # spreads load, no secret
        yield Sleep(delay.total_seconds(), is_rest=True)

    def _checked(self, connection: C) -> Work[bool]:
        """Whether it is fit. One that is not, or that could not be asked to the end, is closed."""
        is_fit = False
        try:
            is_fit = yield from self._is_fit(connection)
        finally:
            if not is_fit:
                self._forget(connection)
        return is_fit

    def _is_fit(self, connection: C) -> Work[bool]:
        if self.trust.is_surely_fit(connection):
            return True
        if self.trust.is_over(connection, monotonic()):
            return False
        try:
            yield Ask(connection)
        except psycopg.Error as error:
            self.trust.note(connection, error, is_general=isinstance(error, NoReply))
            return False
        return True

    def _nothing_to_lend(self, *, was_full: bool = False) -> DatabaseClosed | ConnectionFailed | PoolTimeout:
        if self.is_closed:
            return DatabaseClosed(self._closed_text)
        return self._availability.nothing_to_lend(
            self._settings.pool_timeout.total_seconds(),
            max_size=self._settings.pool_max_conns,
            is_full=was_full or self._is_full,
        )

    @property
    def _is_full(self) -> bool:
        """Whether every connection that this pool may have is made, so that no caller waits for a new one."""
        return self._size - self._opening >= self._settings.pool_max_conns

    @property
    def _period(self) -> float:
        settings = self._settings
        return min(settings.pool_health_check_period, settings.pool_max_conn_idle_time).total_seconds()

    @property
    def _is_short(self) -> bool:
        """Whether another connection is wanted, and allowed."""
        if self.is_closed or self._size >= self._settings.pool_max_conns:
            return False
        return self._size < self._settings.pool_min_conns or bool(self._waiters)

    def _reserve(self) -> bool:
        with self._lock:
            is_short = self._is_short
            self._size += is_short
            self._opening += is_short
            return is_short

    def _put(self, connection: C) -> None:
        if self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            waiter.connection = connection
            waiter.wake()
        else:
            self._idle.append(connection)

    def _forget(self, connection: C | None) -> None:
        """Close it, and count it no more."""
        if connection is not None:
            connection.pgconn.finish()
        with self._lock:
            self._size -= 1
            if self._is_short:
                self._call_tender()

    def _close_unused(self) -> None:
        before = monotonic() - self._settings.pool_max_conn_idle_time.total_seconds()
        with self._lock:
            spare = max(0, self._size - self._settings.pool_min_conns)
            unused = [each for each in self._idle if each.life.used_at <= before][:spare]
            self._idle = [each for each in self._idle if each not in unused]
        for connection in unused:
            self._forget(connection)

    def _take_stale(self) -> list[C]:
        now = monotonic()
        with self._lock:
            stale = [each for each in self._idle if self.trust.is_over(each, now) or each.probe.is_readable()]
            self._idle = [each for each in self._idle if each not in stale]
            return stale
