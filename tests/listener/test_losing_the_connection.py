"""A lost connection is logged once, retried for ever, and every channel is listened to again afterwards."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.domain.backoff import Exponential
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.embedded.postmaster import StopMode
from holdfast.postgres.listener import Listener
from holdfast.postgres.subscriptions import Subscription
from listener.recording_subscriber import Dialer, Ear, Said, a_listener, ready, send
from support.proxy import Proxy
from support.server_faults import start_again, stop_now
from support.waiting import until

CHANNELS = ("one", "two", "three")
SOON = timedelta(milliseconds=20)
A_MOMENT = timedelta(seconds=2)


@dataclass
class Scene:
    """A listener with three subscribers, all ready, and what it logs."""

    dsn: str
    listener: Listener
    said: Said
    ears: dict[str, Ear] = field(default_factory=dict)
    subscriptions: list[Subscription] = field(default_factory=list)

    async def is_lost(self) -> None:
        await until(lambda: len(self.said.losses) == 1)
        health = self.said.health[0]
        assert not health.is_listening
        assert health.in_force == frozenset()
        assert health.missing == set(CHANNELS)
        assert health.last_error is not None
        assert health.last_error in self.said.losses[0]

    async def is_back(self, *, reconnects: int = 1) -> None:
        """Reconnected, all in force, a Gap each, new notifications arrive, one line each way."""
        await until(lambda: len(self.said.recoveries) == 1)
        await ready(*self.subscriptions)
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as sender:
            for channel, ear in self.ears.items():
                await send(sender, channel, "back")
                await ear.hears("back")
                assert ear.gaps == reconnects + 1
        health = self.listener.health
        assert health.is_whole
        assert health.in_force == set(CHANNELS)
        assert health.reconnects == reconnects
        assert health.since > self.said.health[0].since
        assert len(self.said.lines) == 2


@asynccontextmanager
async def scene(
    dsn: str, said: Said, listener: Listener, *, is_reachable: bool = True
) -> AsyncIterator[Scene]:
    said.listener = listener
    here = Scene(dsn, listener, said)
    async with listener:
        for channel in CHANNELS:
            here.ears[channel] = Ear()
            here.subscriptions.append(listener.subscribe(channel, here.ears[channel]))
        if is_reachable:
            await ready(*here.subscriptions)
            assert said.lines == []
        yield here


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with Proxy.before(dsn) as proxy:
        yield proxy


@pytest.mark.requirement("S2.43")
async def test_a_terminated_backend_is_replaced(
    dsn: str, sender: psycopg.AsyncConnection[Any], said: Said
) -> None:
    dial = Dialer(dsn)
    async with scene(dsn, said, a_listener(dial)) as here:
        await sender.execute("select pg_terminate_backend(%s)", [dial.dialled[0].info.backend_pid])
        await here.is_lost()
        await here.is_back()
        assert "terminating connection" in said.losses[0]


@pytest.fixture(scope="module")
def private_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    directory: Path = tmp_path_factory.mktemp("pg")
    with EmbeddedServer.start(directory, settings={"fsync": "off"}) as server:
        yield server


@pytest.mark.requirement("S2.43")
@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_server_that_restarts_is_found_again(
    private_server: EmbeddedServer, said: Said, mode: StopMode
) -> None:
    dial = Dialer(private_server.dsn)
    async with scene(private_server.dsn, said, a_listener(dial)) as here:
        await asyncio.to_thread(stop_now, private_server, mode)
        await here.is_lost()
        tries = dial.tries
        await until(lambda: dial.tries > tries + 3)
        assert not here.listener.health.is_listening
        await asyncio.to_thread(start_again, private_server)
        await here.is_back()


@pytest.mark.requirement("S2.43")
async def test_a_connection_that_went_silent_is_noticed_though_nothing_was_expected(
    dsn: str, proxy: Proxy, said: Said
) -> None:
    listener = a_listener(proxy.dsn(dsn), ping_interval=SOON, ping_timeout=A_MOMENT, connect_timeout=A_MOMENT)
    async with scene(dsn, said, listener) as here:
        proxy.black_hole()
        await here.is_lost()
        assert "did not answer within 2s" in said.losses[0]
        await proxy.connected(2)
        assert len(said.lines) == 1
        proxy.pass_through()
        proxy.reset()
        await here.is_back()


async def test_a_connection_that_answers_is_kept_however_often_it_is_asked(
    dsn: str, proxy: Proxy, said: Said
) -> None:
    listener = a_listener(proxy.dsn(dsn), ping_interval=timedelta(milliseconds=1))
    async with scene(dsn, said, listener):
        connections = proxy.since.connections
        await proxy.reply_passed(proxy.since.replies_passed + 20)
        assert proxy.since.connections == connections
        assert said.lines == []


@pytest.mark.requirement("S2.43")
async def test_while_the_server_does_not_answer_it_is_said_once_and_tried_for_ever(
    dsn: str, proxy: Proxy, said: Said
) -> None:
    dial = Dialer(proxy.dsn(dsn))
    async with scene(dsn, said, a_listener(dial)) as here:
        proxy.refuse()
        proxy.reset()
        await here.is_lost()
        tries = dial.tries
        await until(lambda: dial.tries > tries + 10)
        health = here.listener.health
        assert not health.is_listening
        assert health.last_error is not None
        assert "refused" in health.last_error
        assert not any(subscription.is_ready for subscription in here.subscriptions)
        assert len(said.lines) == 1
        proxy.pass_through()
        await here.is_back()


@pytest.mark.requirement("S2.43")
async def test_a_server_that_is_not_there_at_first_is_waited_for(dsn: str, proxy: Proxy, said: Said) -> None:
    proxy.refuse()
    async with scene(dsn, said, a_listener(proxy.dsn(dsn)), is_reachable=False) as here:
        await here.is_lost()
        proxy.pass_through()
        await here.is_back(reconnects=0)


async def test_channels_that_change_during_the_loss_are_right_afterwards(
    dsn: str, proxy: Proxy, said: Said
) -> None:
    async with scene(dsn, said, a_listener(proxy.dsn(dsn))) as here:
        proxy.refuse()
        proxy.reset()
        await here.is_lost()
        here.subscriptions.pop().cancel()
        added = here.listener.subscribe("four", Ear())
        proxy.pass_through()
        await ready(*here.subscriptions, added)
        assert here.listener.health.in_force == {"one", "two", "four"}


@dataclass(frozen=True)
class Noted(Exponential):
    """The same waits, and which failures they were asked for."""

    failures: list[int] = field(default_factory=list)

    def delay(self, failures: int, luck: float) -> timedelta:
        self.failures.append(failures)
        return min(super().delay(failures, luck), SOON)


async def test_being_cut_off_again_and_again_is_answered_with_growing_waits(
    dsn: str, sender: psycopg.AsyncConnection[Any]
) -> None:
    dial, backoff = Dialer(dsn), Noted(SOON)

    async def cut_off(subscription: Subscription) -> None:
        await ready(subscription)
        failures = len(backoff.failures)
        await sender.execute("select pg_terminate_backend(%s)", [dial.dialled[-1].info.backend_pid])
        await until(lambda: len(backoff.failures) > failures)

    async with Listener(dial, backoff=backoff, verify=False) as listener:
        subscription = listener.subscribe("c", Ear())
        for _ in range(3):
            await cut_off(subscription)
    assert backoff.failures == [1, 2, 3]


@pytest.mark.requirement("S2.43")
def test_the_waits_between_tries_never_exceed_five_seconds() -> None:
    backoff = Listener(Dialer(""))._backoff
    assert max(backoff.delay(failures, 0.999) for failures in range(1, 100)) == timedelta(seconds=5)


async def test_a_silence_that_another_connection_has_found_is_looked_into_at_once(dsn: str) -> None:
    """A ping of its own would come in an hour."""
    async with Proxy.before(dsn) as proxy:
        front = proxy.dsn(dsn)
        listener = Listener(
            lambda: psycopg.AsyncConnection.connect(front, autocommit=True),
            ping_interval=timedelta(hours=1),
            ping_timeout=timedelta(milliseconds=500),
        )
        async with listener:
            await ready(listener.subscribe("one", lambda _: None))
            proxy.black_hole()
            await asyncio.to_thread(listener.silent_since, 0.0)
            await until(lambda: not listener.health.is_listening)
            proxy.pass_through()
            await until(lambda: listener.health.is_whole)
