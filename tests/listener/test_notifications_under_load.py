"""No notification is lost, repeated or reordered while channels come and go on the same connection."""

import asyncio
import os
import socket
import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.errors import ConnectionLost
from holdfast.postgres.listener import Listener
from holdfast.postgres.listening_connection import ListeningConnection
from listener.recording_subscriber import BOUND, Dialer, Ear, a_listener, ready
from support.proxy import Proxy
from support.waiting import block_until, until

COUNT = 10_000
BATCH = 5
HOUR = timedelta(hours=1)


async def send_all(dsn: str, channels: tuple[str, ...]) -> None:
    """Numbers 1 to COUNT to each channel, in short transactions."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as sender:
        for start in range(1, COUNT + 1, BATCH):
            await sender.execute(
                "select pg_notify(channel, n::text)"
                "  from unnest(%s::text[]) channel, generate_series(%s::int, %s) n",
                [list(channels), start, start + BATCH - 1],
            )


async def come_and_go(listener: Listener, sending: asyncio.Task[None], ear: Ear) -> int:
    """Subscribe and cancel, mostly without waiting for the effect, until everything has been sent."""
    rounds = 0
    while not sending.done():
        rounds += 1
        passing = [listener.subscribe(f"passing {(rounds + step) % 7}", ear) for step in range(3)]
        beside = listener.subscribe("steady", ear)
        if rounds % 4 == 0:
            await ready(*passing)
        else:
            await asyncio.sleep(0)
        for subscription in (*passing, beside):
            subscription.cancel()
    return rounds


@pytest.mark.requirement("S2.42")
async def test_each_of_ten_thousand_is_delivered_once_and_in_order_while_channels_come_and_go(
    dsn: str,
) -> None:
    steady, other, passing, dial = Ear(), Ear(), Ear(), Dialer(dsn)
    async with a_listener(dial, verify=False, ping_interval=timedelta(milliseconds=1)) as listener:
        await ready(listener.subscribe("steady", steady), listener.subscribe("other", other))
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(send_all(dsn, ("steady", "other")))
            churning = tasks.create_task(come_and_go(listener, sending, passing))
        await until(lambda: len(steady.payloads) >= COUNT and len(other.payloads) >= COUNT)
        numbers = [str(number) for number in range(1, COUNT + 1)]
        assert steady.payloads == numbers
        assert other.payloads == numbers
        assert steady.gaps == other.gaps == 1
        assert churning.result() > 100
        assert passing.gaps > 100
        await until(lambda: listener.health.in_force == {"steady", "other"})
    assert len(dial.dialled) == 1


async def test_what_is_read_together_with_the_reply_to_a_statement_is_delivered(dsn: str) -> None:
    """The socket shows nothing then: libpq has read the notification already."""
    heard: list[str] = []
    line = await a_line(dsn, heard)
    try:
        await line.listen(["c"])
        asking = asyncio.create_task(line.run(b"select 'answered' from pg_sleep(0.2)"))
        await asyncio.sleep(0)
        # The event loop is held up from here on, so that both are there when it looks.
        until_received(line, b"answered")
        with psycopg.connect(dsn, autocommit=True) as sender:
            sender.execute("select pg_notify('c', 'behind the answer')")
        until_received(line, b"behind the answer")
        await asking
        assert heard == ["behind the answer"]
    finally:
        line.close()


def until_received(line: ListeningConnection, content: bytes) -> None:
    """Block until the operating system holds this for the connection."""
    with socket.socket(fileno=os.dup(line._socket)) as peeking:
        block_until(lambda: content in _peek(peeking), f"{content!r} arrives", within=BOUND)


def _peek(peeking: socket.socket) -> bytes:
    try:
        return peeking.recv(65536, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


@pytest.mark.requirement("S2.42")
async def test_a_channel_added_while_another_is_being_added_takes_effect_by_itself(dsn: str) -> None:
    async with Proxy.before(dsn) as proxy, a_listener(proxy.dsn(dsn), ping_interval=HOUR) as listener:
        await ready(listener.subscribe("first", Ear()))
        proxy.latency(0.05)
        second = listener.subscribe("second", Ear())
        await proxy.request_passed()
        assert "second" not in listener.health.in_force
        third = listener.subscribe("third", Ear())
        await ready(second, third)


async def test_an_answer_that_lay_waiting_while_the_event_loop_was_held_up_counts(dsn: str) -> None:
    line = await a_line(dsn, [], patience=timedelta(milliseconds=50))
    try:
        asking = asyncio.create_task(line.run(b"select 1"))
        await asyncio.sleep(0)
        time.sleep(0.5)  # noqa: ASYNC251 - a handler that blocks, with the answer and the deadline behind it
        await asking
    finally:
        line.close()


async def test_a_server_that_hangs_up_is_quoted(dsn: str, sender: psycopg.AsyncConnection[Any]) -> None:
    line = await a_line(dsn, [])
    try:
        with pytest.raises(ConnectionLost, match="administrator command"):
            await line.run(b"select pg_terminate_backend(pg_backend_pid())")
    finally:
        line.close()


async def a_line(
    dsn: str, heard: list[str], *, patience: timedelta = timedelta(seconds=20)
) -> ListeningConnection:
    connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(dsn)
    return ListeningConnection(
        connection, lambda _, payload: heard.append(payload), stirred=asyncio.Event(), patience=patience
    )
