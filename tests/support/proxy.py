"""A TCP proxy in front of Postgres whose faults are switched while connections are open.

    async with Proxy.before(dsn) as proxy:
        connection = await psycopg.AsyncConnection.connect(proxy.dsn(dsn))
        proxy.swallow_replies()
        commit = asyncio.create_task(connection.commit())
        await proxy.reply_swallowed()       # so the server has committed
        proxy.reset()

Each switch starts the counts in `proxy.since` afresh, and the awaitables look at those: what they wait for
may have happened before they are called, so a test has no gap to race through. A stream that lost bytes
stays lost when the fault ends, as the bytes after a gap would mean nothing; streams that lost none go on.
"""

import asyncio
import enum
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_READY = b"Z\0\0\0\5I"  # ReadyForQuery, with which logging in ends
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with no time: close sends RST and drops what is queued


class _Fault(enum.Enum):
    NONE = enum.auto()
    BLACK_HOLE = enum.auto()
    SWALLOW_REPLIES = enum.auto()
    ONLY_LOG_IN = enum.auto()


@dataclass(slots=True)
class Traffic:
    """What happened since the last switch. Requests and replies are counted in reads, not in messages."""

    connections: int = 0
    requests_passed: int = 0
    requests_swallowed: int = 0
    replies_passed: int = 0
    replies_swallowed: int = 0


class Proxy:
    """One listening address that hands its connections on to one server, or fails to, as told."""

    def __init__(self, target: tuple[str, int], tasks: asyncio.TaskGroup) -> None:
        self.since = Traffic()
        self._target = target
        self._tasks = tasks
        self._changed = asyncio.Event()  # set once and replaced at each change
        self._fault = _Fault.NONE
        self._latency = 0.0
        self._links: dict[asyncio.Task[None], _Link] = {}
        self._accepting: tuple[asyncio.Task[None], socket.socket] | None = None
        # Bound but never listening: keeps the port ours while connections to it are refused.
        self._reserved = _bound("127.0.0.1", 0)
        self.host, self.port = self._reserved.getsockname()

    @classmethod
    @asynccontextmanager
    async def to(cls, host: str, port: int) -> "AsyncIterator[Proxy]":
        """In front of a host name, an address, or the directory of a unix socket, as libpq reads them."""
        async with asyncio.TaskGroup() as tasks:
            proxy = cls((host, port), tasks)
            try:
                proxy.pass_through()
                yield proxy
            finally:
                proxy.refuse()
                proxy.reset()
                proxy._reserved.close()

    @classmethod
    def before(cls, dsn: str) -> "AbstractAsyncContextManager[Proxy]":
        parts = conninfo_to_dict(dsn)
        host = parts.get("hostaddr") or parts.get("host") or "127.0.0.1"
        return cls.to(str(host), int(parts.get("port") or 5432))

    def dsn(self, dsn: str) -> str:
        """The same database, user and options, reached through here."""
        return make_conninfo(dsn, host=self.host, port=self.port, hostaddr=None)

    @property
    def open_connections(self) -> int:
        return len(self._links)

    def pass_through(self) -> None:
        """No fault: accept, and hand everything on at once."""
        self._switch(_Fault.NONE)
        self._latency = 0.0

    def black_hole(self) -> None:
        """Accept, and let nothing through either way, not even the end of a connection."""
        self._switch(_Fault.BLACK_HOLE)

    def swallow_replies(self) -> None:
        """Requests reach the server; what it answers never arrives."""
        self._switch(_Fault.SWALLOW_REPLIES)

    def only_log_in(self) -> None:
        """As a pooler whose server is away: clients are let in, and cut off when they ask for something."""
        self._switch(_Fault.ONLY_LOG_IN)

    def latency(self, seconds: float) -> None:
        """Hand on what is read this much later, each way."""
        self._switch(_Fault.NONE)
        self._latency = seconds

    def refuse(self) -> None:
        """New connections are refused; open ones go on. Any switch but `reset` undoes it."""
        self._switch(self._fault, listen=False)

    def reset(self) -> None:
        """Cut every open connection with RST on both sides. The fault that is switched on stays."""
        for task, link in self._links.items():
            link.break_off()
            task.cancel()

    async def connected(self, count: int = 1) -> None:
        """Until so many connections came in since the last switch; refused ones cannot be seen."""
        await self.until(lambda: self.since.connections >= count)

    async def request_passed(self, count: int = 1) -> None:
        await self.until(lambda: self.since.requests_passed >= count)

    async def request_swallowed(self, count: int = 1) -> None:
        await self.until(lambda: self.since.requests_swallowed >= count)

    async def reply_passed(self, count: int = 1) -> None:
        await self.until(lambda: self.since.replies_passed >= count)

    async def reply_swallowed(self, count: int = 1) -> None:
        """Until the server has answered, and the answer was dropped."""
        await self.until(lambda: self.since.replies_swallowed >= count)

    async def until(self, is_so: Callable[[], bool], *, within: float = 20.0) -> None:
        """Until a claim about `since` or `open_connections` holds; TimeoutError if it never does."""
        async with asyncio.timeout(within):
            while not is_so():
                await self._changed.wait()

    def _switch(self, fault: _Fault, *, listen: bool = True) -> None:
        self._fault = fault
        self.since = Traffic()
        if listen and self._accepting is None:
            listening = _bound(self.host, self.port)
            listening.listen(128)
            self._accepting = self._tasks.create_task(self._accept(listening)), listening
        elif not listen and self._accepting is not None:
            task, listening = self._accepting
            self._accepting = None
            asyncio.get_running_loop().remove_reader(listening)  # its end would be told to a cancelled future
            with suppress(OSError):  # not every system knows it for listening sockets; Linux stops at once
                listening.shutdown(socket.SHUT_RDWR)
            task.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                client, _ = await loop.sock_accept(listening)
                link = _Link([client])
                task = self._tasks.create_task(self._run(link))
                # Not a `finally` of the task: one that is cancelled before its first step runs none.
                self._links[task] = link
                task.add_done_callback(self._forget)
                self._note("connections")

    async def _run(self, link: "_Link") -> None:
        """Carry one connection until both sides are done, or one breaks, which breaks the other."""
        [client] = link.sockets
        try:
            client.setblocking(False)
            if self._fault is _Fault.BLACK_HOLE:
                await self._carry(link, client, None, "requests")
                return
            server = await self._connect()
            link.sockets.append(server)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._carry(link, client, server, "requests"))
                pumps.create_task(self._carry(link, server, client, "replies"))
        except* OSError:
            link.break_off()

    def _forget(self, task: asyncio.Task[None]) -> None:
        for one in self._links.pop(task).sockets:
            one.close()
        self._wake()

    async def _connect(self) -> socket.socket:
        host, port = self._target
        is_unix = host.startswith("/")
        server = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET, socket.SOCK_STREAM)
        server.setblocking(False)
        try:
            address = f"{host}/.s.PGSQL.{port}" if is_unix else (host, port)
            await asyncio.get_running_loop().sock_connect(server, address)
        except BaseException:
            server.close()
            raise
        return server

    async def _carry(
        self, link: "_Link", source: socket.socket, target: socket.socket | None, what: str
    ) -> None:
        loop = asyncio.get_running_loop()
        lost = target is None
        while True:
            try:
                data = await loop.sock_recv(source, 65536)
            except OSError:
                if lost or self._swallows(what):
                    return
                raise
            if self._latency:
                await asyncio.sleep(self._latency)
            if what == "replies":
                link.is_logged_in = link.is_logged_in or data.endswith(_READY)
            elif self._fault is _Fault.ONLY_LOG_IN and link.is_logged_in:
                raise ConnectionResetError
            lost = lost or link.is_broken or self._swallows(what)
            if not data:
                break
            if target is not None and not lost:
                await loop.sock_sendall(target, data)
            self._note(f"{what}_{'swallowed' if lost else 'passed'}")
        if target is not None and not lost:
            target.shutdown(socket.SHUT_WR)

    def _swallows(self, what: str) -> bool:
        return self._fault is _Fault.BLACK_HOLE or (
            self._fault is _Fault.SWALLOW_REPLIES and what == "replies"
        )

    def _note(self, counter: str) -> None:
        setattr(self.since, counter, getattr(self.since, counter) + 1)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@dataclass(slots=True)
class _Link:
    """The two ends of one connection: the client's first."""

    sockets: list[socket.socket]
    is_broken: bool = False
    is_logged_in: bool = False

    def break_off(self) -> None:
        """Nothing is handed on from now on, not even what was read a moment ago; closing sends RST."""
        self.is_broken = True
        for one in self.sockets:
            with suppress(OSError):  # already gone, or a unix socket, which has no RST
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


def _bound(host: str, port: int) -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setblocking(False)
    one.bind((host, port))
    return one
