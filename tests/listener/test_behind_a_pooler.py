"""A transaction-mode pooler answers LISTEN and delivers nothing; the listener finds out and says so once."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from listener.recording_subscriber import Dialer, Ear, Said, a_listener, ready, send
from support.pgbouncer import pgbouncer
from support.waiting import until

UNHEARD = "notifications do not arrive (a transaction-mode pooler?)"


@pytest.mark.machine
@pytest.mark.root
@pytest.mark.parametrize(("pool_size", "round_robin"), [(1, False), (20, False), (20, True)])
async def test_notifications_that_do_not_arrive_are_noticed_and_said_once(
    dsn: str, sender: psycopg.AsyncConnection[Any], said: Said, pool_size: int, round_robin: bool
) -> None:
    ear = Ear()
    with pgbouncer(dsn, "transaction", pool_size=pool_size, round_robin=round_robin) as pooled:
        dial = Dialer(pooled)
        listener = a_listener(
            dial, ping_timeout=timedelta(seconds=1), verify_again=timedelta(milliseconds=50)
        )
        said.listener = listener
        async with listener:
            subscription = listener.subscribe("c", ear)
            await until(lambda: dial.tries >= 6)
            assert len(said.lines) == 1
            assert UNHEARD in said.lines[0]
            assert said.health[0].last_error == UNHEARD
            assert not said.health[0].is_listening
            assert ear.told == []
            assert all(connection.closed for connection in dial.dialled[:4])

            dial.dsn = dsn
            await ready(subscription)
            await send(sender, "c", "direct")
            await ear.hears("direct")
            assert len(said.lines) == 2


@pytest.mark.machine
@pytest.mark.root
async def test_what_does_not_arrive_is_tried_again_rarely(dsn: str, said: Said) -> None:
    with pgbouncer(dsn, "transaction") as pooled:
        dial = Dialer(pooled)
        async with a_listener(dial, ping_timeout=timedelta(milliseconds=300)) as listener:
            await until(lambda: listener.health.last_error == UNHEARD)
            assert dial.tries == 2
            assert all(connection.closed for connection in dial.dialled)
            assert listener._verify_again == timedelta(minutes=5)


@pytest.mark.machine
@pytest.mark.root
async def test_a_session_mode_pooler_is_as_good_as_none(
    dsn: str, sender: psycopg.AsyncConnection[Any], said: Said
) -> None:
    ear = Ear()
    with pgbouncer(dsn, "session") as pooled:
        async with a_listener(pooled) as listener:
            await ready(listener.subscribe("c", ear))
            await send(sender, "c", "through")
            await ear.hears("through")
            assert listener.health.is_whole
    assert said.lines == []
