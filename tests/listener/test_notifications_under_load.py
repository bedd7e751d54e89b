"""No notification is lost, repeated or overtaken while channels come and go on the same connection."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.errors import ConnectionLost
from holdfast.postgres.line import Line
from holdfast.postgres.listener import Listener
from listener.hearing import Dialer, Ear, a_listener, eventually, ready

COUNT = 10_000
BATCH = 5


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
        await eventually(lambda: len(steady.payloads) >= COUNT and len(other.payloads) >= COUNT)
        numbers = [str(number) for number in range(1, COUNT + 1)]
        assert steady.payloads == numbers
        assert other.payloads == numbers
        assert steady.gaps == other.gaps == 1
        assert churning.result() > 100
        assert passing.gaps > 100
        await eventually(lambda: listener.health.in_force == {"steady", "other"})
    assert len(dial.dialled) == 1


async def test_what_arrives_with_the_reply_to_a_statement_is_delivered_without_further_traffic(
    dsn: str,
) -> None:
    """The socket shows nothing then: libpq has read the notifications already."""
    heard: list[str] = []
    line = await a_line(dsn, heard)
    try:
        await line.listen(["c"])
        await line.run(b"select pg_notify('c', n::text) from generate_series(1, 100) n")
        assert heard == [str(number) for number in range(1, 101)]
    finally:
        line.close()


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


async def a_line(dsn: str, heard: list[str], *, patience: timedelta = timedelta(seconds=20)) -> Line:
    connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(dsn)
    return Line(
        connection, lambda _, payload: heard.append(payload), stirred=asyncio.Event(), patience=patience
    )
