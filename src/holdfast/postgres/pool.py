"""Connections for an event loop. What a pool decides is in `pool_core`; here it is awaited."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TypeVar, assert_never

import psycopg
from psycopg.rows import TupleRow

from holdfast.postgres.availability import CHECK_SECONDS, CLOSE_SECONDS
from holdfast.postgres.connection_target import ConnectionTarget
from holdfast.postgres.conversation import hold
from holdfast.postgres.lenient_rows import UNREADABLE, read_leniently
from holdfast.postgres.pool_core import PoolCore
from holdfast.postgres.pool_steps import Ask, Connect, Queue, RollBack, Sleep, Step, Waiter
from holdfast.postgres.pooled_connection import PooledConnection
from holdfast.postgres.reply_timeouts import Patience, replies_within
from holdfast.postgres.rows import has_rows
from holdfast.postgres.session_settings import SessionSettings
from holdfast.postgres.translate import NoReply

T = TypeVar("T")

_numbers = count(1)


class Pool:
    def __init__(self, target: ConnectionTarget, session: SessionSettings) -> None:
        self._conninfo = target.conninfo
        self._settings = target.settings
        self._session = session
        self._availability = target.availability
        self.reply_seconds = target.settings.reply_timeout.total_seconds()
        self._patience = Patience(self.reply_seconds)
        self._is_tender_needed = asyncio.Event()
        self._tender: asyncio.Task[None] | None = None
        self.core = PoolCore[PooledConnection](
            target,
            session,
            call_tender=self._is_tender_needed.set,
            closed="this Database is closed: it serves inside its `async with`",
        )
        self.take_at_once = self.core.take_at_once
        self.give_back = self.core.give_back

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await hold(self.core.open(), self._carry_out)
        except BaseException:
            self.core.close()
            raise
        self._availability.tell_of_silence(self)
        self._tender = asyncio.create_task(self._tend(), name=f"holdfast pool tender {next(_numbers)}")

    async def close(self) -> None:
        """Connections that are lent out are closed when they come back."""
        self.core.close()
        self._patience.close()
        if self._tender:
            self._tender.cancel()
            await asyncio.wait([self._tender], timeout=CLOSE_SECONDS)

    def silent_since(self, since: float) -> None:
        """Called from another thread. On the loop, waits that began before then are cut, and no connection
        that is idle now is lent again.
        """

        def cut() -> None:
            now = self.core.trust.distrust()
            self._patience.cut_older_than(since)
            # What was sent a little later has the same patience, and no more.
            self._loop.call_later(CHECK_SECONDS, self._patience.cut_older_than, now)

        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(cut)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[PooledConnection]:
        connection = self.take_at_once() or await self.take()
        try:
            yield connection
        finally:
            self.give_back(connection)

    async def take(self) -> PooledConnection:
        """A connection that is fit to be used. The caller gives it back, whatever happens."""
        return await hold(self.core.take(), self._carry_out)

    async def send(
        self, connection: PooledConnection, text: bytes, params: Sequence[object] | None = None
    ) -> list[TupleRow]:
        """Send something and wait for its rows, within a bound. Parameters are `$1` and so on: psycopg
        would look for names in every text of more than 4 kB, every time. Raises psycopg's errors.
        """
        return await self._answered(connection, _asked(connection.raw, text, params))

    async def command(self, connection: PooledConnection, text: bytes) -> None:
        """Send commands without parameters, whose answers do not matter, as one text. Without a cursor of
        psycopg's, which would look for what to prepare.
        """
        await self._answered(connection, connection.command(text))

    async def _answered(self, connection: PooledConnection, exchange: Awaitable[T]) -> T:
        cancellation = _Cancellation()
        with self._patience.reply_on(connection) as bound:
            try:
                return await exchange
            except psycopg.Error as error:
                cancellation.raise_if_lost(error)
                silent_for = self.reply_seconds if bound.was_reached else None
                raise self.core.trust.failed(connection, error, silent_for) from error.__cause__

    async def roll_back(self, connection: PooledConnection) -> None:
        await hold(self.core.roll_back(connection), self._carry_out)

    async def sweep(self) -> None:
        await hold(self.core.sweep(), self._carry_out)

    async def _tend(self) -> None:
        try:
            await hold(self.core.tend(), self._carry_out)
        finally:
            # The event loop may end with a pool that was never closed.
            self.core.close()

    async def _carry_out(self, step: Step) -> object:
        match step:
            case Connect():
                return await self._connect()
            case Queue(seconds):
                return await self._queue(seconds)
            case Ask(connection, text):
                await self._within_check(connection, connection.execute(text))
            case RollBack(connection):
                await self._within_check(connection, connection.rollback())
            case Sleep(seconds, is_rest):
                await self._pause(seconds, is_rest=is_rest)
            case _:
                assert_never(step)
        return None

    async def _connect(self) -> PooledConnection:
        cancellation = _Cancellation()
        connection = await PooledConnection.connect(
            self._conninfo, autocommit=True, prepare_threshold=self._session.prepare_threshold
        )
        connection.begin_life(self._settings)
        if cancellation.is_lost:
            connection.pgconn.finish()
            raise asyncio.CancelledError
        return connection

    async def _within_check(self, connection: PooledConnection, exchange: Awaitable[object]) -> None:
        cancellation = _Cancellation()
        with replies_within(connection, CHECK_SECONDS) as bound:
            try:
                await exchange
            except psycopg.Error as error:
                cancellation.raise_if_lost(error)
                if bound.was_reached:
                    raise NoReply(CHECK_SECONDS) from error
                raise

    async def _queue(self, seconds: float) -> PooledConnection | None:
        handed = asyncio.Event()
        waiter = Waiter[PooledConnection](handed.set)
        self.core.join_queue(waiter)
        timer = self._loop.call_later(seconds, waiter.wake)
        try:
            await handed.wait()
        except BaseException:
            # A caller that is cancelled in the moment of being handed a connection passes it on.
            if connection := self.core.leave_queue(waiter):
                self.give_back(connection)
            raise
        finally:
            timer.cancel()
        return self.core.leave_queue(waiter)

    async def _pause(self, seconds: float, *, is_rest: bool) -> None:
        if is_rest:
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_tender_needed.wait()
        self._is_tender_needed.clear()


class _Cancellation:
    """Notices a cancellation that psycopg swallowed.

    A task that is cancelled has the server cancel its query; if the connection is cut meanwhile, psycopg
    raises that error instead. And before Python 3.12 a wait with a timeout may forget a cancellation that
    arrives just as it ends. Without this check the task would send its statement again, and never end.
    """

    __slots__ = ("_before", "_task")

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task else 0

    @property
    def is_lost(self) -> bool:
        return self._task is not None and self._task.cancelling() > self._before

    def raise_if_lost(self, error: psycopg.Error) -> None:
        if self.is_lost:
            raise asyncio.CancelledError from error


async def _asked(
    cursor: psycopg.AsyncRawCursor[TupleRow], text: bytes, params: Sequence[object] | None
) -> list[TupleRow]:
    """The rows of the reply, whose memory is freed here: the cursor is kept for the next statement."""
    # Times and numbers are read faster as bytes; what has no parameters may be several commands.
    await cursor.execute(text, params, binary=bool(params))
    reply = cursor.pgresult
    if not has_rows(reply):
        return []
    try:
        rows = await cursor.fetchall()
    except UNREADABLE:
        rows = read_leniently(reply, cursor.connection)
    reply.clear()
    return rows
