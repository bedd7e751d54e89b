"""A connection on which notifications arrive at any time: while waiting, and in the middle of a statement.

It is used at libpq's level, for two reasons. Its wait is for an event that any code may set, so a wait is
interrupted without a cancellation, and no notification is lost between two waits. And a statement that is
given up because nothing passes through the connection any more ends at once: psycopg's own wait first tries
for up to ten seconds to cancel it on the server.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import pq, sql

from holdfast.domain.duration import compact
from holdfast.errors import ConnectionLost, StatementFailed


class ListeningConnection:
    """Takes a connection over until `close`. `deliver` is called with a channel and a payload, in order."""

    def __init__(
        self,
        connection: psycopg.AsyncConnection[Any],
        deliver: Callable[[str, str], None],
        *,
        stirred: asyncio.Event,
        patience: timedelta,
    ) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._encoding = connection.info.encoding
        self._deliver = deliver
        self._stirred = stirred
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._socket = connection.pgconn.socket
        self._last_words: str | None = None
        connection.add_notice_handler(self._noticed)
        self._is_read = True
        self._loop.add_reader(self._socket, self._readable)
        self.heard_at = self._loop.time()

    def close(self) -> None:
        self._stop_reading()
        self._pgconn.finish()

    async def stir(self) -> None:
        """Wait until something arrives or other code sets `stirred`; deliver what arrived.

        Whatever a statement's reply brought along sits in libpq's buffer, where the socket no longer shows
        it: `run` leaves nothing there. Cancelled, this has taken nothing that it did not deliver.
        """
        await self._stirred.wait()
        self._stirred.clear()
        self._take()

    async def until(self, is_so: Callable[[], bool]) -> bool:
        """Deliver until it is so; False if it is not so when `patience` has passed."""
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                while not is_so():
                    await self.stir()
        except TimeoutError:
            # After the event loop was held up, the answer and the deadline are there at the same time.
            self._take()
        return is_so()

    async def listen(self, channels: Collection[str]) -> None:
        """In force for all of them, or, when one is refused, for none."""
        await self.run(self._for_each("listen {}", channels))

    async def unlisten(self, channels: Collection[str]) -> None:
        await self.run(self._for_each("unlisten {}", channels))

    async def run(self, text: bytes, params: Sequence[bytes] = ()) -> None:
        """Send a statement and wait for its end, delivering whatever arrives meanwhile."""
        if params:
            self._pgconn.send_query_params(text, params)
        else:
            self._pgconn.send_query(text)
        await self._flush()
        refusal: pq.abc.PGresult | None = None
        while (result := await self._result()) is not None:
            if refusal is None and result.status == pq.ExecStatus.FATAL_ERROR:
                refusal = result
        self._take()
        if refusal is not None:
            raise self._error(refusal)

    def _for_each(self, command: str, channels: Collection[str]) -> bytes:
        parts = [sql.SQL(command).format(sql.Identifier(channel)) for channel in sorted(channels)]
        try:
            return sql.SQL("; ").join(parts).as_bytes(self._connection)
        except UnicodeEncodeError as error:
            raise StatementFailed(f"the connection's encoding has no {error.object!r}") from None

    async def _flush(self) -> None:
        if not self._pgconn.flush():
            return
        self._loop.add_writer(self._socket, self._stirred.set)
        try:
            if not await self.until(lambda: not self._pgconn.flush()):
                raise self._silence()
        finally:
            self._loop.remove_writer(self._socket)

    async def _result(self) -> pq.abc.PGresult | None:
        if not await self.until(lambda: not self._pgconn.is_busy()):
            raise self._silence()
        return self._pgconn.get_result()

    def _silence(self) -> ConnectionLost:
        return ConnectionLost(f"the server did not answer within {compact(self._patience)}")

    def _error(self, refusal: pq.abc.PGresult) -> ConnectionLost | StatementFailed:
        severity = refusal.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED)
        sqlstate = refusal.error_field(pq.DiagnosticField.SQLSTATE) or b""
        kind = StatementFailed if severity == b"ERROR" else ConnectionLost
        return kind(pq.error_message(refusal, self._encoding).strip(), sqlstate=sqlstate.decode() or None)

    def _readable(self) -> None:
        """Deliver at once, before a waiting task wakes; that task finds out if the connection is lost."""
        self.heard_at = self._loop.time()
        with suppress(ConnectionLost):
            self._take()
        self._stirred.set()

    def _stop_reading(self) -> None:
        """Once, and at once: libpq closes the socket of a lost connection, whose number is soon another's."""
        if self._is_read:
            self._is_read = False
            self._loop.remove_reader(self._socket)

    def _noticed(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        """Keep why the server hangs up: on a connection that asked for nothing, it says so in a notice."""
        if diagnostic.severity_nonlocalized in {"FATAL", "PANIC"}:
            self._last_words = diagnostic.message_primary

    def _take(self) -> None:
        try:
            self._pgconn.consume_input()
        except psycopg.OperationalError as error:
            self._stop_reading()
            self._drain()
            raise ConnectionLost(self._last_words or str(error)) from error
        self._drain()

    def _drain(self) -> None:
        while (received := self._pgconn.notifies()) is not None:
            # A sender may have put any bytes into a SQL_ASCII database; that must not end the listening.
            self._deliver(
                received.relname.decode(self._encoding, "replace"),
                received.extra.decode(self._encoding, "replace"),
            )
