"""Connections for threads. What a pool decides is in `pool_core`; here it blocks.

Two threads of the pool's own stand in for an event loop: the tender, and one that cuts silent connections.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from time import monotonic
from typing import assert_never

import psycopg
from psycopg.rows import TupleRow

from holdfast.postgres.availability import CHECK_SECONDS, CLOSE_SECONDS
from holdfast.postgres.connection_target import ConnectionTarget
from holdfast.postgres.conversation import hold_blocking
from holdfast.postgres.lenient_rows import UNREADABLE, read_leniently
from holdfast.postgres.pool_core import PoolCore
from holdfast.postgres.pool_steps import Ask, Connect, Queue, RollBack, Sleep, Step, Waiter
from holdfast.postgres.pooled_connection import BlockingPooledConnection
from holdfast.postgres.reply_timeouts import Watchdog
from holdfast.postgres.rows import has_rows
from holdfast.postgres.session_settings import SessionSettings
from holdfast.postgres.translate import NoReply

_numbers = count(1)
_TICK_SECONDS = 0.5


class BlockingPool:
    def __init__(self, target: ConnectionTarget, session: SessionSettings) -> None:
        self._conninfo = target.conninfo
        self._settings = target.settings
        self._session = session
        self._availability = target.availability
        self._watchdog = Watchdog()
        self._stop = threading.Event()
        self._is_tender_needed = threading.Event()
        self.core = PoolCore[BlockingPooledConnection](
            target,
            session,
            call_tender=self._is_tender_needed.set,
            closed="this BlockingDatabase is closed",
        )
        self.give_back = self.core.give_back
        number = next(_numbers)
        self._threads = [
            threading.Thread(target=target, name=f"holdfast pool {name} {number}", daemon=True)
            for name, target in (("tender", self._tend), ("watchdog", self._watch))
        ]

    def open(self) -> None:
        for thread in self._threads[1:]:  # the bounds of the first connections, too, are kept by the watchdog
            thread.start()
        try:
            hold_blocking(self.core.open(), self._carry_out)
        except BaseException:
            self._stop.set()
            self.core.close()
            raise
        self._availability.tell_of_silence(self)
        self._threads[0].start()

    def close(self) -> None:
        """Connections that are lent out are closed when they come back."""
        self._stop.set()
        self.core.close()
        deadline = monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            # The garbage collector may close a forgotten pool in any thread, these included.
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - monotonic()))

    def silent_since(self, since: float) -> None:  # noqa: ARG002  # what began before then is over soonest
        """The watchdog's next tick cuts what waits for long enough; what is idle now is not lent again."""
        self.core.trust.distrust()
        self._watchdog.hasten(CHECK_SECONDS)

    @contextmanager
    def lend(self) -> Iterator[BlockingPooledConnection]:
        connection = self.core.take_at_once() or hold_blocking(self.core.take(), self._carry_out)
        try:
            yield connection
        finally:
            self.give_back(connection)

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
                reason = self.core.trust.failed(connection, error, seconds if bound.was_reached else None)
                if bound.was_reached:
                    self._availability.fell_silent(sent_at)
                raise reason from error.__cause__

    def roll_back(self, connection: BlockingPooledConnection) -> None:
        hold_blocking(self.core.roll_back(connection), self._carry_out)

    def sweep(self) -> None:
        hold_blocking(self.core.sweep(), self._carry_out)

    def _tend(self) -> None:
        hold_blocking(self.core.tend(), self._carry_out)

    def _watch(self) -> None:
        while not self._stop.wait(_TICK_SECONDS):
            self._watchdog.bite()

    def _carry_out(self, step: Step) -> object:
        match step:
            case Connect():
                return self._connect()
            case Queue(seconds):
                return self._queue(seconds)
            case Ask(connection, text):
                self._within_check(connection, lambda: connection.execute(text))
            case RollBack(connection):
                self._within_check(connection, connection.rollback)
            case Sleep(seconds, is_rest):
                self._pause(seconds, is_rest=is_rest)
            case _:
                assert_never(step)
        return None

    def _connect(self) -> BlockingPooledConnection:
        connection = BlockingPooledConnection.connect(
            self._conninfo, autocommit=True, prepare_threshold=self._session.prepare_threshold
        )
        connection.begin_life(self._settings)
        return connection

    def _within_check(self, connection: BlockingPooledConnection, exchange: Callable[[], object]) -> None:
        with self._watchdog.replies_within(connection, CHECK_SECONDS) as bound:
            try:
                exchange()
            except psycopg.Error as error:
                if bound.was_reached:
                    raise NoReply(CHECK_SECONDS) from error
                raise

    def _queue(self, seconds: float) -> BlockingPooledConnection | None:
        handed = threading.Event()
        waiter = Waiter[BlockingPooledConnection](handed.set)
        self.core.join_queue(waiter)
        try:
            handed.wait(seconds)
        except BaseException:
            # As by Ctrl-C in the moment of being handed a connection, which is passed on.
            if connection := self.core.leave_queue(waiter):
                self.give_back(connection)
            raise
        return self.core.leave_queue(waiter)

    def _pause(self, seconds: float, *, is_rest: bool) -> None:
        if is_rest:
            self._stop.wait(seconds)
            return
        self._is_tender_needed.wait(seconds)
        self._is_tender_needed.clear()


def _taken_from(cursor: psycopg.RawCursor[TupleRow]) -> list[TupleRow]:
    reply = cursor.pgresult
    if not has_rows(reply):
        return []
    try:
        return cursor.fetchall()
    except UNREADABLE:
        return read_leniently(reply, cursor.connection)
