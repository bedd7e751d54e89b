"""The connections of one App: opened at first use, one pool for each event loop, one for blocking callers;
beside them, as few as needed for operators' questions.
"""

import asyncio
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from holdfast.per_loop import PerLoop
from holdfast.postgres.availability import Availability
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.conversation import Conversation, hold, hold_blocking
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations.runner import Migrated, migrate, own_connection
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.schema import Schema
from holdfast.producer.ambient_connection import OWN_TRANSACTION, given_or_ambient
from holdfast.producer.call_site_warnings import warn_on_a_loop
from holdfast.producer.nearby_workers import NearbyWorkers
from holdfast.producer.producer import BlockingProducer, Producer, Reach
from holdfast.question_connections import QuestionConnections
from holdfast.settings import Embedded, Server, read_target
from holdfast.storage.migrations import packaged

R = TypeVar("R")


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
    _producers: PerLoop[Producer] = field(init=False)
    _blocking: BlockingProducer | None = None
    _questions: QuestionConnections = field(init=False)

    def __post_init__(self) -> None:
        self._producers = PerLoop(self._open)
        self._questions = QuestionConnections(self._reach)

    def dsn(self) -> Dsn:
        """Where the database is. Starts and migrates the private server if the App asks for one. Blocks."""
        with self._lock:
            if self._dsn is None:
                self._dsn = self._find()
            return self._dsn

    @property
    def availability(self) -> Availability:
        """Shared by all pools of this App and its workers in this process, so that they report one outage."""
        dsn = self.dsn()
        with self._lock:
            if self._availability is None:
                self._availability = Availability.of(dsn)
            return self._availability

    async def opened(self) -> Producer:
        """The producer of this event loop. The first caller opens it while the others wait."""
        return await self._producers.get()

    def opened_blocking(self) -> BlockingProducer:
        warn_on_a_loop()
        reach = self._reach()
        with self._lock:
            if self._blocking is None:
                self._blocking = BlockingProducer.open(reach)
            return self._blocking

    def chosen(self, conn: object) -> object:
        """The caller's connection: the one given, or that of the `app.using()` around it; None for one of
        this App's own.
        """
        conn = given_or_ambient(self, conn)
        return None if conn is OWN_TRANSACTION else conn

    async def hold(self, conversation: Conversation[R], conn: object) -> R:
        """On the caller's connection, in the transaction open there; else in a transaction of its own."""
        conn = self.chosen(conn)
        if conn is not None:
            return await hold(conversation, lambda statement: run_on(conn, statement))
        producer = await self.opened()
        async with producer.database.transaction() as transaction:
            return await hold(conversation, transaction.run)

    def hold_sync(self, conversation: Conversation[R], conn: object) -> R:
        conn = self.chosen(conn)
        if conn is not None:
            return hold_blocking(conversation, lambda statement: run_on_blocking(conn, statement))
        with self.opened_blocking().database.transaction() as transaction:
            return hold_blocking(conversation, transaction.run)

    async def look(self, conversation: Conversation[R], conn: object) -> R:
        """For what only reads, for an operator: on the caller's connection, else on one for questions."""
        conn = self.chosen(conn)
        if conn is not None:
            return await hold(conversation, lambda statement: run_on(conn, statement))
        return await self._questions.hold(conversation)

    def look_sync(self, conversation: Conversation[R], conn: object) -> R:
        conn = self.chosen(conn)
        if conn is not None:
            return hold_blocking(conversation, lambda statement: run_on_blocking(conn, statement))
        warn_on_a_loop()
        return self._questions.hold_sync(conversation)

    def migrate(self) -> Migrated:
        """Create our tables, or bring them up to this release. Blocks."""
        with own_connection(self.dsn()) as connection:
            return migrate(connection, self.schema, packaged())

    async def close(self) -> None:
        """Close what this event loop opened, and with the last event loop what blocking callers opened."""
        await self._questions.close()
        producer = await self._producers.take()
        if producer is not None:
            await producer.close()
        if not self._producers and not self._questions.are_open_on_a_loop:
            await asyncio.to_thread(self.close_blocking)

    def close_blocking(self) -> None:
        self._questions.close_blocking()
        with self._lock:
            blocking, self._blocking = self._blocking, None
            server, self._server = self._server, None
            self._dsn = None if server is not None else self._dsn
            self._availability = None
        if blocking is not None:
            blocking.close()
        if server is not None:
            server.stop()

    async def _open(self) -> Producer:
        return await Producer.open(await asyncio.to_thread(self._reach))

    def _reach(self) -> Reach:
        return Reach(self.dsn(), self.schema, self.options, self.availability, self.nearby)

    def _find(self) -> Dsn:
        match read_target(self.given):
            case Server(dsn):
                return dsn
            case Embedded(directory):
                with ExitStack() as unless_it_works:
                    server = EmbeddedServer.start(Path(directory))
                    unless_it_works.callback(server.stop)
                    dsn = Dsn.parse(server.dsn)
                    # A private server has no other owner: the process that starts it migrates it.
                    with own_connection(dsn) as connection:
                        migrate(connection, self.schema, packaged())
                    unless_it_works.pop_all()
                self._server = server
                return dsn
