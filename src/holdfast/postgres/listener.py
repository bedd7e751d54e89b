"""One connection that LISTENs for all subscribers of this process, kept alive while there may be any.

A notification is only a hint: after each interruption every subscriber gets a Gap and checks for itself. So
nothing here is stored, resent or waited for, and a listener that cannot listen causes delay, not lost work.
"""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, NoReturn, Self

import psycopg

from holdfast.domain.backoff import Exponential
from holdfast.domain.duration import compact
from holdfast.errors import ConnectionFailed, DatabaseError, StatementFailed
from holdfast.postgres.listener_health import ListenerHealth, ListenerState
from holdfast.postgres.listening_connection import ListeningConnection
from holdfast.postgres.subscriptions import Callback, Subscription, Subscriptions

Connect = Callable[[], Awaitable[psycopg.AsyncConnection[Any]]]
Notify = Callable[[str], Awaitable[object]]


_BACKOFF = Exponential(timedelta(milliseconds=100), cap=timedelta(seconds=5))


class _Unheard(DatabaseError):
    """LISTEN is accepted, but what is sent does not arrive."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    failures: int
    retry_at: float


class Listener:
    """Entered, it owns one task and one connection. To be used from the event loop that it runs in.

    A subscriber that comes or goes changes `_subscriptions` and sets `_stirred`; only
    the one task talks to Postgres, and it always compares what is wanted with what is in force, so an
    order that comes while another is being carried out cannot be lost.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        backoff: Exponential = _BACKOFF,
        connect_timeout: timedelta = timedelta(seconds=10),
        ping_interval: timedelta = timedelta(seconds=15),
        ping_timeout: timedelta = timedelta(seconds=5),
        verify: bool = True,
        verify_again: timedelta = timedelta(minutes=5),
        notify: Notify | None = None,
    ) -> None:
        """With `verify`, each new connection must hear a notification that is sent over another one: by
        `notify`, or else over a second, short-lived one.
        """
        self._connect: Connect | None = connect
        self._backoff = backoff
        self._connect_timeout = connect_timeout
        self._ping_interval = ping_interval
        self._ping_timeout = ping_timeout
        self._verify = verify
        self._verify_again = verify_again
        self._notify = notify
        self._doubted_at = float("-inf")
        self._stirred = asyncio.Event()
        self._subscriptions = Subscriptions(self._stirred)
        self._state = ListenerState()
        self._in_force: set[str] = set()
        self._refusals: dict[str, _Refusal] = {}
        # One name for all proofs: a pooler's backend keeps a LISTEN that it was handed.
        self._probe = f"holdfast.probe.{secrets.token_hex(8)}"
        self._is_probe_heard = False
        self._task: asyncio.Task[NoReturn] | None = None

    @classmethod
    def off(cls, reason: str) -> Self:
        """Takes subscriptions, never delivers anything, and says why in its health."""

        async def never() -> psycopg.AsyncConnection[Any]:
            raise ConnectionFailed(reason)

        listener = cls(never)
        listener._connect = None
        listener._state = ListenerState(reason)
        return listener

    async def __aenter__(self) -> Self:
        if self._connect is not None:
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.create_task(self._run(self._connect), name="holdfast listener")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._state.left()

    def subscribe(self, channel: str, callback: Callback) -> Subscription:
        """Call back with each `Notified` and `Gap`, from the event loop, so quickly and without waiting."""
        return self._subscriptions.add(channel, callback)

    def silent_since(self, since: float) -> None:  # noqa: ARG002  # what was heard later is known here
        """From another thread: nothing came back from the server there, so it is asked here, too."""

        def doubt() -> None:
            self._doubted_at = self._loop.time()
            self._stirred.set()

        if self._task is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(doubt)

    @property
    def health(self) -> ListenerHealth:
        return ListenerHealth(
            is_listening=self._state.is_listening,
            since=self._state.since,
            reconnects=self._state.reconnects,
            last_error=self._state.last_error,
            wanted=frozenset(self._subscriptions.channels),
            in_force=frozenset(self._in_force),
        )

    async def _run(self, connect: Connect) -> NoReturn:
        failures = 0
        while True:
            try:
                await self._session(connect)
            except _Unheard as error:
                self._state.lost(error)
                delay = self._verify_again
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and the next try is due
                # A connection that is cut again and again right after it is made counts as failing.
                failures = 1 if self._state.has_listened_for(self._backoff.cap) else failures + 1
                self._state.lost(error)
                delay = self._delay(failures)
            await asyncio.sleep(delay.total_seconds())

    async def _session(self, connect: Connect) -> NoReturn:
        async with self._line(connect, self._deliver, self._stirred) as line:
            try:
                if self._verify:
                    await self._prove(line, connect)
                await self._settle(line)
                self._state.found()
                while True:
                    self._subscriptions.open(self._in_force)
                    await self._attend(line)
                    await self._settle(line)
            finally:
                self._in_force.clear()
                self._subscriptions.interrupt()

    @asynccontextmanager
    async def _line(
        self, connect: Connect, deliver: Callable[[str, str], None], stirred: asyncio.Event
    ) -> AsyncIterator[ListeningConnection]:
        try:
            async with asyncio.timeout(self._connect_timeout.total_seconds()):
                connection = await connect()
        except TimeoutError:
            raise ConnectionFailed(f"no connection within {compact(self._connect_timeout)}") from None
        line = ListeningConnection(connection, deliver, stirred=stirred, patience=self._ping_timeout)
        try:
            yield line
        finally:
            line.close()

    async def _prove(self, line: ListeningConnection, connect: Connect) -> None:
        """Hear a notification of our own, sent from elsewhere: a pooler may answer LISTEN and forget it.

        A pooler hands on what comes together with a reply to the client that asked: so the sender has another
        connection than the listener, and what arrives there does not count.
        """
        await line.listen([self._probe])
        self._is_probe_heard = False
        if self._notify is not None:
            async with asyncio.timeout(self._connect_timeout.total_seconds()):
                await self._notify(self._probe)
        else:
            async with self._line(connect, lambda *_: None, asyncio.Event()) as other:
                await other.run(b"select pg_catalog.pg_notify($1, $2)", [self._probe.encode(), b""])
        if not await line.until(lambda: self._is_probe_heard):
            raise _Unheard("notifications do not arrive (a transaction-mode pooler?)")
        await line.unlisten([self._probe])

    async def _settle(self, line: ListeningConnection) -> None:
        """Make what is in force what is wanted; both may change while Postgres is being asked."""
        while True:
            wanted = set(self._subscriptions.channels)
            self._refusals = {channel: self._refusals[channel] for channel in self._refusals.keys() & wanted}
            stale = self._in_force - wanted
            missing = {channel for channel in wanted - self._in_force if self._is_due(channel)}
            if not stale and not missing:
                return
            if stale:
                self._in_force -= stale
                await line.unlisten(stale)
            if missing:
                await self._listen(line, missing)

    async def _listen(self, line: ListeningConnection, channels: set[str]) -> None:
        try:
            await line.listen(channels)
        except StatementFailed as error:
            if len(channels) > 1:
                for channel in channels:
                    await self._listen(line, {channel})
            else:
                self._refuse(channels.pop(), error)
        else:
            self._in_force |= channels
            for channel in channels & self._refusals.keys():
                del self._refusals[channel]
                self._state.accepted(channel)

    def _refuse(self, channel: str, error: StatementFailed) -> None:
        before = self._refusals.get(channel)
        failures = before.failures + 1 if before else 1
        retry_at = asyncio.get_running_loop().time() + self._delay(failures).total_seconds()
        self._refusals[channel] = _Refusal(failures, retry_at)
        self._state.refused(channel, error, is_news=before is None)

    def _is_due(self, channel: str) -> bool:
        refusal = self._refusals.get(channel)
        return refusal is None or refusal.retry_at <= asyncio.get_running_loop().time()

    async def _attend(self, line: ListeningConnection) -> None:
        """Deliver until something else is to be done; after a silence make sure that the server is there."""
        ping_at = line.heard_at + self._ping_interval.total_seconds()
        if line.heard_at < self._doubted_at:
            ping_at = self._doubted_at
        try:
            async with asyncio.timeout_at(
                min([ping_at, *(each.retry_at for each in self._refusals.values())])
            ):
                await line.stir()
        except TimeoutError:
            if asyncio.get_running_loop().time() >= ping_at:
                await line.run(b"select 1")

    def _deliver(self, channel: str, payload: str) -> None:
        if channel == self._probe:
            self._is_probe_heard = True
        else:
            self._subscriptions.deliver(channel, payload)

    def _delay(self, failures: int) -> timedelta:
        return self._backoff.delay(failures, random.random())  # noqa: S311 - jitter, not a secret
