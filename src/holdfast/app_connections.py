"""The connections of one App: opened at first use, one pool for each event loop, one for blocking callers."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from holdfast.domain.schema_version import judge
from holdfast.postgres.availability import Availability
from holdfast.postgres.blocking import BlockingDatabase
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.conversation import Conversation, hold, hold_blocking
from holdfast.postgres.database import Database
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations.runner import Migrated, migrate, own_connection
from holdfast.postgres.migrations.version import explained, read_version
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.schema import Schema
from holdfast.producer.ambient_connection import OWN_TRANSACTION, ambient_connection
from holdfast.producer.call_site_warnings import warn_on_a_loop
from holdfast.producer.enqueuer import Enqueuer
from holdfast.producer.nearby_workers import NearbyWorkers
from holdfast.producer.notifier import BLOCKING_HINTS, HINTS, BlockingNotifier, Notifier
from holdfast.settings import Embedded, Server, read_target
from holdfast.storage.migrations import known_version, packaged

R = TypeVar("R")


@dataclass(slots=True)
class _Async:
    database: Database
    hints: Database
    notifier: Notifier
    enqueuer: Enqueuer


@dataclass(slots=True)
class _Blocking:
    database: BlockingDatabase
    hints: BlockingDatabase
    notifier: BlockingNotifier


@dataclass(slots=True)
class AppConnections:
    given: str | None = field(repr=False)  # may hold a password
    schema: Schema
    options: PoolOptions
    nearby: NearbyWorkers = field(default_factory=NearbyWorkers)
    _server: EmbeddedServer | None = None
    _dsn: Dsn | None = None
    _availability: Availability | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _loops: dict[asyncio.AbstractEventLoop, "asyncio.Task[_Async]"] = field(default_factory=dict)
    _blocking: _Blocking | None = None

    def dsn(self) -> Dsn:
        """Where the database is; starts and migrates the private server if that was asked for. Blocks."""
        with self._lock:
            if self._dsn is None:
                self._dsn = self._find()
            return self._dsn

    @property
    def availability(self) -> Availability:
        """Of all pools of this App and its workers in this process, which tell of an outage together."""
        dsn = self.dsn()
        with self._lock:
            if self._availability is None:
                self._availability = Availability.of(dsn)
            return self._availability

    async def opened(self) -> _Async:
        """For this event loop, opened by the first caller while the others wait."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._forget_ended_loops()
            self._loops[loop] = loop.create_task(self._open())
        opening = self._loops[loop]
        if opening.done() and not opening.cancelled() and opening.exception() is None:
            return opening.result()  # as always but for the first time
        try:
            return await asyncio.shield(opening)
        except Exception:
            # The first who hears of it, as somebody may have begun to open anew meanwhile.
            if self._loops.get(loop) is opening:
                del self._loops[loop]
            raise

    def opened_blocking(self) -> _Blocking:
        warn_on_a_loop()
        dsn, availability = self.dsn(), self.availability
        with self._lock:
            if self._blocking is None:
                self._blocking = self._open_blocking(dsn, availability)
            return self._blocking

    def chosen(self, conn: object, on_none: Callable[[], None] = lambda: None) -> object:
        """The caller's connection: the one given, or that of the `app.using()` around; None for one of ours.
        `on_none` hears when nothing was said at all.
        """
        if conn is None:
            conn = ambient_connection(self)
            if conn is None:
                on_none()
        return None if conn is OWN_TRANSACTION else conn

    async def hold(self, conversation: Conversation[R], conn: object) -> R:
        """On the caller's connection, in the transaction that is open there; else in one of our own."""
        conn = self.chosen(conn)
        if conn is not None:
            return await hold(conversation, lambda statement: run_on(conn, statement))
        here = await self.opened()
        async with here.database.transaction() as transaction:
            return await hold(conversation, transaction.run)

    def hold_sync(self, conversation: Conversation[R], conn: object) -> R:
        conn = self.chosen(conn)
        if conn is not None:
            return hold_blocking(conversation, lambda statement: run_on_blocking(conn, statement))
        with self.opened_blocking().database.transaction() as transaction:
            return hold_blocking(conversation, transaction.run)

    def migrate(self) -> Migrated:
        """Create our tables, or bring them up to this release. Blocks."""
        with own_connection(self.dsn()) as connection:
            return migrate(connection, self.schema, packaged())

    async def close(self) -> None:
        """Close what this event loop opened, and what blocking callers did."""
        self._forget_ended_loops()
        opening = self._loops.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            here = await opening
            await here.enqueuer.finish()
            await here.notifier.finish()
            await here.hints.close()
            await here.database.close()
        if not self._loops:
            await asyncio.to_thread(self.close_blocking)

    def close_blocking(self) -> None:
        with self._lock:
            blocking, self._blocking = self._blocking, None
            server, self._server = self._server, None
            self._dsn = None if server is not None else self._dsn
            self._availability = None
        if blocking is not None:
            blocking.notifier.finish()
            blocking.hints.close()
            blocking.database.close()
        if server is not None:
            server.stop()

    async def _open(self) -> _Async:
        dsn = await asyncio.to_thread(self.dsn)
        together = self.availability
        async with AsyncExitStack() as unless_it_works:
            database = Database(dsn, self.options, purpose="app", availability=together)
            await unless_it_works.enter_async_context(database)
            known = known_version()
            with explained(self.schema, known=known):
                found = (await database.run(read_version(self.schema)))[0]
            judge(found, known=known, schema=self.schema.name)
            hints = Database(dsn, HINTS, purpose="notifier", availability=together)
            await unless_it_works.enter_async_context(hints)
            unless_it_works.pop_all()
        notifier = Notifier(hints, self.schema, self.nearby)
        return _Async(database, hints, notifier, Enqueuer(database, self.schema, notifier))

    def _open_blocking(self, dsn: Dsn, together: Availability) -> _Blocking:
        with ExitStack() as unless_it_works:
            database = BlockingDatabase(dsn, self.options, purpose="app", availability=together)
            unless_it_works.callback(database.close)
            known = known_version()
            with explained(self.schema, known=known):
                found = database.run(read_version(self.schema))[0]
            judge(found, known=known, schema=self.schema.name)
            unless_it_works.pop_all()
        hints = BlockingDatabase(dsn, BLOCKING_HINTS, purpose="notifier", availability=together)
        return _Blocking(database, hints, BlockingNotifier(hints, self.schema, self.nearby))

    def _forget_ended_loops(self) -> None:
        """Their connections went with them. Over a copy, as other threads open and close here too."""
        for loop in list(self._loops):
            if loop.is_closed():
                self._loops.pop(loop, None)

    def _find(self) -> Dsn:
        match read_target(self.given):
            case Server(dsn):
                return dsn
            case Embedded(directory):
                with ExitStack() as unless_it_works:
                    server = EmbeddedServer.start(Path(directory))
                    unless_it_works.callback(server.stop)
                    dsn = Dsn.parse(server.dsn)
                    # A private server has no other owner: whoever starts it brings its tables up to date.
                    with own_connection(dsn) as connection:
                        migrate(connection, self.schema, packaged())
                    unless_it_works.pop_all()
                self._server = server
                return dsn
