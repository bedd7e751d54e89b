"""Leaving ends the task and the connection, whatever they are in the middle of.

The bounds inside the listener are an hour here, so that ending at all proves that nothing waited for them.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.domain.backoff import Exponential
from holdfast.postgres.listener import Listener
from listener.recording_subscriber import BOUND, Dialer, Ear, ready
from support.proxy import Proxy
from support.waiting import until

HOUR = timedelta(hours=1)


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with Proxy.before(dsn) as proxy:
        yield proxy


def patient(dial: Dialer, *, ping_interval: timedelta = HOUR, verify: bool = False) -> Listener:
    return Listener(
        dial,
        backoff=Exponential(HOUR),
        connect_timeout=HOUR,
        ping_interval=ping_interval,
        ping_timeout=HOUR,
        verify=verify,
    )


async def leave(listener: Listener) -> None:
    async with asyncio.timeout(BOUND):
        await listener.__aexit__(None, None, None)
    assert not any("listener" in task.get_name() for task in asyncio.all_tasks())
    assert not listener.health.is_listening
    assert listener.health.in_force == frozenset()


async def test_leaving_while_listening_closes_the_connection(dsn: str) -> None:
    dial = Dialer(dsn)
    listener = await patient(dial, verify=True).__aenter__()
    subscription = listener.subscribe("c", Ear())
    await ready(subscription)
    await leave(listener)
    assert all(connection.closed for connection in dial.dialled)
    assert not subscription.is_ready


async def test_leaving_before_the_first_step(dsn: str) -> None:
    dial = Dialer(dsn)
    await leave(await patient(dial).__aenter__())
    assert dial.tries == 0


async def test_leaving_between_two_tries(dsn: str, proxy: Proxy) -> None:
    proxy.refuse()
    listener = await patient(Dialer(proxy.dsn(dsn))).__aenter__()
    await until(lambda: listener.health.last_error is not None)
    await leave(listener)


async def test_leaving_in_the_middle_of_connecting(dsn: str, proxy: Proxy) -> None:
    proxy.black_hole()
    listener = await patient(Dialer(proxy.dsn(dsn))).__aenter__()
    await proxy.request_swallowed()
    await leave(listener)


async def test_leaving_in_the_middle_of_a_statement_does_not_ask_the_server_first(
    dsn: str, proxy: Proxy
) -> None:
    dial = Dialer(proxy.dsn(dsn))
    listener = await patient(dial, ping_interval=timedelta(seconds=1)).__aenter__()
    await ready(listener.subscribe("c", Ear()))
    proxy.black_hole()
    await proxy.until(lambda: bool(proxy.since.requests_swallowed or proxy.since.replies_swallowed))
    await leave(listener)
    assert dial.dialled[0].closed
    assert proxy.since.connections == 0


async def test_leaving_in_the_middle_of_verifying_closes_both_connections(dsn: str, proxy: Proxy) -> None:
    dial = Dialer(proxy.dsn(dsn))

    async def dial_and_lose_the_second() -> psycopg.AsyncConnection[Any]:
        connection = await dial()
        if len(dial.dialled) == 2:
            proxy.swallow_replies()
        return connection

    listener = await Listener(dial_and_lose_the_second, ping_timeout=HOUR).__aenter__()
    await proxy.reply_swallowed()
    await leave(listener)
    assert [connection.closed for connection in dial.dialled] == [True, True]


async def test_a_cancelled_body_stays_cancelled(dsn: str) -> None:
    is_inside = asyncio.Event()

    async def body() -> None:
        async with patient(Dialer(dsn)) as listener:
            await ready(listener.subscribe("c", Ear()))
            is_inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    async with asyncio.timeout(BOUND):
        await is_inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_waiting_to_be_ready_can_be_cancelled(dsn: str) -> None:
    subscription = Listener.off("nothing to hear").subscribe("c", Ear())
    waiting = asyncio.create_task(subscription.ready())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
