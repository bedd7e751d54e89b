"""A pool for an event loop that outlives the server's restarts and does not lend dead connections.

psycopg's pool lends and refills. Decided here: whether a connection is fit to be lent, when it has lived
long enough, and that refilling goes on for as long as the server is away.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from time import monotonic
from weakref import WeakSet

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus
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
from holdfast.postgres.pooled_connection import PooledConnection
from holdfast.postgres.read_only import is_read_only
from holdfast.postgres.reply_timeouts import Ear, Patience, replies_within
from holdfast.postgres.rows import has_rows
from holdfast.postgres.session_settings import Life, SessionSettings
from holdfast.postgres.sqlstate import meaning
from holdfast.postgres.translate import NoReply, one_line

_numbers = count(1)


class Pool:
    def __init__(
        self, conninfo: str, settings: PoolSettings, session: SessionSettings, availability: Availability
    ) -> None:
        self._settings = settings
        self._session = session
        self._availability = availability
        self._connections: WeakSet[PooledConnection] = WeakSet()
        self._lent: set[PooledConnection] = set()
        # Back from their last use. Lent again from here, without a round through psycopg's pool, which takes
        # half as long as the statement itself; whoever waits there is served first.
        self._at_hand: list[PooledConnection] = []
        self._waiting = 0
        self._returning: set[asyncio.Task[None]] = set()
        self._patience = Patience(settings.reply_timeout.total_seconds())
        self._distrusted_until = float("-inf")
        self._keeper: asyncio.Task[None] | None = None
        self._pool = psycopg_pool.AsyncConnectionPool(
            conninfo,
            connection_class=PooledConnection,
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
            name=f"{POOL_NAME}-{next(_numbers)}",
            open=False,
        )

    async def open(self) -> None:
        """Until the least number of connections is there: else the first caller would make one more."""
        try:
            await self._pool.open(wait=True, timeout=self._settings.pool_timeout.total_seconds())
        except psycopg_pool.PoolTimeout:
            raise self._nothing_to_lend() from None
        except BaseException:
            await self.close()
            raise
        self._loop = asyncio.get_running_loop()
        self._availability.tell_of_silence(self)
        self._keeper = asyncio.create_task(self._keep(), name=f"{self._pool.name}-keeper")

    def silent_since(self, since: float) -> None:
        """From another thread: on the loop, what waits since before is cut, what lies idle not lent again."""

        def cut() -> None:
            self._distrusted_until = monotonic()
            self._patience.cut_older_than(since)
            # What was sent a little later has the same patience, and no more.
            self._loop.call_later(CHECK_SECONDS, self._patience.cut_older_than, self._distrusted_until)

        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(cut)

    async def close(self) -> None:
        """Connections that are lent out are closed when they come back."""
        keeper, self._keeper = self._keeper, None
        if keeper:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
        await self._close()

    async def _close(self) -> None:
        self._patience.close()
        await self._put_away()
        await asyncio.gather(*self._returning, return_exceptions=True)
        await self._pool.close(CLOSE_SECONDS)
        # psycopg's pool leaves a task that is still connecting behind; a task that is ended here stays ended.
        mine = asyncio.current_task()
        left = [
            task
            for task in asyncio.all_tasks()
            if task.get_name().startswith(f"{self._pool.name}-") and task is not mine
        ]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[PooledConnection]:
        connection = await self.take()
        try:
            yield connection
        finally:
            await self.give_back(connection)

    async def take(self) -> PooledConnection:
        """A connection that is fit to be used. The caller gives it back, whatever happens."""
        while self._at_hand:
            connection = self._at_hand.pop()
            if self._is_surely_fit(connection) or await self._is_still_fit(connection):
                self._lent.add(connection)
                return connection
        deadline = monotonic() + self._settings.pool_timeout.total_seconds()
        while True:
            connection = await self._wait_for_one(deadline)
            if await self._is_still_fit(connection):
                self._lent.add(connection)
                return connection

    async def give_back(self, connection: PooledConnection) -> None:
        self._lent.discard(connection)
        connection.life.used_at = monotonic()
        if connection.life.is_over:
            await connection.close()
        is_ready = not connection.closed and connection.pgconn.transaction_status == TransactionStatus.IDLE
        if is_ready and not self._waiting and not self._pool.closed:
            self._at_hand.append(connection)
        else:
            await self._put_back(connection)

    async def send(
        self, connection: PooledConnection, text: bytes, params: Sequence[object] | None = None
    ) -> list[TupleRow]:
        """Send something and wait for its rows, within a bound. Parameters are `$1` and so on: names psycopg
        would look for in every text of more than 4 kB, every time. Raises its errors.
        """
        with self._patience.reply_on(connection) as bound:
            try:
                cursor = connection.raw
                # Times and numbers are read faster as bytes; what has no parameters may be several commands.
                await cursor.execute(text, params, binary=bool(params))
                return await _taken_from(cursor)
            except psycopg.Error as error:
                is_silent = bound.was_reached
                reason = NoReply(self._settings.reply_timeout.total_seconds()) if is_silent else error
                failure = meaning(error)
                if failure.is_session_over:
                    await connection.close()
                    self._note(connection, reason, is_general=is_silent or failure.is_wrong_server)
                raise reason from error.__cause__

    async def roll_back(self, connection: PooledConnection) -> None:
        """Never raises for a lost connection: that is a rollback, too."""
        if connection.closed:
            return
        try:
            with replies_within(connection, CHECK_SECONDS):
                await connection.rollback()
        except psycopg.Error:
            await connection.close()
        if is_read_only(connection):
            await connection.close()
            self._distrusted_until = monotonic()

    async def sweep(self) -> None:
        """Replace idle connections that ended or have lived long enough, before somebody needs them."""
        await self._put_away(self._period)
        idle = [connection for connection in self._connections if connection not in self._lent]
        stats = self._pool.get_stats()
        if any(self._looks_stale(connection) for connection in idle):
            for _ in range(stats["pool_available"]):
                await self._turn()
        elif stats["pool_size"] < self._settings.pool_min_conns:
            await self._go_on(self._pool)

    async def _turn(self) -> None:
        """Take the connection at the head, and put it back at the tail, closed if it is stale."""
        with suppress(psycopg_pool.PoolTimeout):
            connection = await self._get(0.05)
            try:
                if self._looks_stale(connection) and not await self._is_fit(connection):
                    await connection.close()
            finally:
                await self._put_back(connection)

    async def _keep(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._period)
                await self.sweep()
        finally:
            # Not asked to by `close`: the event loop ends, with a pool that nobody has closed. A worker of
            # psycopg's pool that is just connecting forgets that it was cancelled, and would keep the loop.
            if self._keeper is not None:
                await self._close()

    @property
    def _period(self) -> float:
        """As often as idle connections may have to go, too: psycopg's pool closes only what lies in it."""
        settings = self._settings
        return min(settings.pool_health_check_period, settings.pool_max_conn_idle_time).total_seconds()

    async def _put_away(self, unused_for: float = 0.0) -> None:
        """Back into psycopg's pool, which closes those that are too many."""
        before = monotonic() - unused_for
        old = [connection for connection in self._at_hand if connection.life.used_at <= before]
        self._at_hand = [connection for connection in self._at_hand if connection not in old]
        try:
            while old:
                await self._put_back(old.pop())
        finally:
            self._at_hand[:0] = old

    async def _put_back(self, connection: PooledConnection) -> None:
        """To the end, even if our caller is cancelled meanwhile: else psycopg's pool would for ever count a
        connection that nobody has.
        """
        returning = asyncio.create_task(self._return(connection))
        self._returning.add(returning)
        returning.add_done_callback(self._returning.discard)
        await asyncio.shield(returning)

    async def _return(self, connection: PooledConnection) -> None:
        """Who was cancelled may leave it in the middle of something, which is ended here without a word."""
        status = connection.pgconn.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            await self.roll_back(connection)
        elif status == TransactionStatus.ACTIVE:
            await connection.close()
        await self._pool.putconn(connection)

    async def _wait_for_one(self, deadline: float) -> PooledConnection:
        self._waiting += 1
        was_full = self._is_full()
        try:
            return await self._get(max(0.0, deadline - monotonic()))
        except psycopg_pool.PoolTimeout:
            raise self._nothing_to_lend(is_full=was_full) from None
        except psycopg_pool.PoolClosed:
            raise DatabaseClosed("this Database is closed: it serves inside its `async with`") from None
        finally:
            self._waiting -= 1

    async def _get(self, seconds: float) -> PooledConnection:
        """The pool inside waits with `asyncio.wait_for`, which before Python 3.12 forgets a cancellation that
        comes together with what it waited for; a service that missed its only one would never end.
        """
        task = asyncio.current_task()
        heard = task.cancelling() if task else 0
        connection = await self._pool.getconn(timeout=seconds)
        if task and task.cancelling() > heard:
            await self._put_back(connection)
            raise asyncio.CancelledError
        return connection

    def _nothing_to_lend(self, *, is_full: bool = False) -> PoolTimeout | ConnectionFailed:
        return self._availability.nothing_to_lend(
            self._settings.pool_timeout.total_seconds(),
            max_size=self._settings.pool_max_conns,
            is_full=is_full or self._is_full(),
        )

    def _is_full(self) -> bool:
        """Whether every connection that this pool may have is made, so that no caller waits for a new one."""
        made = sum(not connection.closed for connection in self._connections)
        return made >= self._settings.pool_max_conns

    def _looks_stale(self, connection: PooledConnection) -> bool:
        life = connection.life
        return (
            connection.closed
            or life.is_over
            or life.opened_at <= self._distrusted_until
            or connection.ear.hears()
        )

    def _is_surely_fit(self, connection: PooledConnection) -> bool:
        """A question before every statement would cost as much as most statements."""
        return connection.life.is_fresh and not self._looks_stale(connection)

    async def _is_fit(self, connection: PooledConnection) -> bool:
        """Asks the connection itself only when it has lain idle, or when its socket can be read."""
        life = connection.life
        if connection.closed or life.is_over or life.opened_at <= self._distrusted_until:
            return False
        if self._is_surely_fit(connection):
            return True
        with replies_within(connection, CHECK_SECONDS) as bound:
            try:
                await connection.execute("")
            except psycopg.Error as error:
                self._note(connection, error, is_general=bound.was_reached)
                return False
        return True

    async def _is_still_fit(self, connection: PooledConnection) -> bool:
        """One that is not, or that we could not finish asking, is replaced."""
        is_fit = False
        try:
            is_fit = await self._is_fit(connection)
        finally:
            if not is_fit:
                await connection.close()
                await self._put_back(connection)
        return is_fit

    def _note(self, connection: PooledConnection, error: psycopg.Error, *, is_general: bool) -> None:
        """A connection turned out to be of no use.

        If it fell silent, others of its age most likely did, and finding out would take as long again for
        each. A session that the server ended by its own rules is no loss worth a line in the log.
        """
        if is_general:
            self._distrusted_until = monotonic()
        if meaning(error).is_outcome_unknown:
            self._availability.lost(one_line(error), opened_at=connection.life.opened_at)

    async def _configure(self, connection: PooledConnection) -> None:
        connection.life = Life.begin(self._settings)
        connection.ear = Ear(connection)
        connection.raw = psycopg.AsyncRawCursor(connection)
        try:
            # A pooler lets us in whether or not its server is there: only an answer ends a loss.
            if self._session.opening or self._availability.is_lost:
                with replies_within(connection, CHECK_SECONDS):
                    await connection.execute(self._session.opening)
        except psycopg.Error as error:
            self._availability.lost(one_line(error))
            await connection.close()
            raise
        self._connections.add(connection)
        self._availability.works()

    @staticmethod
    async def _go_on(pool: "psycopg_pool.AsyncConnectionPool[PooledConnection]") -> None:
        """Asking is what makes psycopg's pool grow again after it gave up; its own waits would double."""
        with suppress(psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed):
            await pool.putconn(await pool.getconn(timeout=0.01))


async def _taken_from(cursor: psycopg.AsyncRawCursor[TupleRow]) -> list[TupleRow]:
    """The cursor lives on, what was read from it need not."""
    reply = cursor.pgresult
    if not has_rows(reply):
        return []
    try:
        rows = await cursor.fetchall()
    except UNREADABLE:
        rows = read_leniently(reply, cursor.connection)
    reply.clear()
    return rows
