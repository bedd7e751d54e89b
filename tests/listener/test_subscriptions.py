"""Subscriptions on a connection that holds."""

from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from holdfast.errors import InvalidInput
from holdfast.postgres.listener import Listener
from holdfast.postgres.notification import Gap, Notified, channel_name, notify
from holdfast.postgres.subscriptions import Subscription
from listener.recording_subscriber import Dialer, Ear, Said, a_listener, ready, send
from support.waiting import until

Sender = psycopg.AsyncConnection[Any]


@pytest.mark.requirement("S2.42")
async def test_one_connection_serves_channels_that_are_added_while_it_waits(dsn: str, sender: Sender) -> None:
    dial, ears = Dialer(dsn), [Ear(), Ear(), Ear()]
    async with a_listener(dial, verify=False) as listener:
        for number, ear in enumerate(ears):
            await ready(listener.subscribe(f"queue {number}", ear))
            await send(sender, f"queue {number}", "go")
            await ear.hears("go")
    assert len(dial.dialled) == 1
    assert all(connection.closed for connection in dial.dialled)


async def test_a_subscription_made_before_the_connection_is_there_takes_effect(
    dsn: str, sender: Sender
) -> None:
    ear = Ear()
    listener = a_listener(dsn)
    subscription = listener.subscribe("early", ear)
    async with listener:
        await ready(subscription)
        await send(sender, "early", "hello")
        await ear.hears("hello")


async def test_the_first_value_of_every_subscription_is_a_gap(dsn: str, sender: Sender) -> None:
    first, second = Ear(), Ear()
    async with a_listener(dsn) as listener:
        await ready(listener.subscribe("c", first))
        await send(sender, "c", "one")
        await first.hears("one")
        await ready(listener.subscribe("c", second))
        await send(sender, "c", "two")
        await second.hears("two")
        await first.hears("one", "two")
    assert first.told == [Gap("c"), Notified("c", "one"), Notified("c", "two")]
    assert second.told == [Gap("c"), Notified("c", "two")]


async def test_every_subscriber_of_a_channel_is_told_and_no_other(dsn: str, sender: Sender) -> None:
    both, other = [Ear(), Ear()], Ear()
    async with a_listener(dsn) as listener:
        await ready(*(listener.subscribe("shared", ear) for ear in both), listener.subscribe("other", other))
        await send(sender, "shared", "x")
        await send(sender, "other", "y")
        await other.hears("y")
        assert [ear.payloads for ear in both] == [["x"], ["x"]]


@pytest.mark.requirement("S2.42")
async def test_a_channel_is_given_up_with_its_last_subscriber(dsn: str, sender: Sender) -> None:
    keeps, leaves = Ear(), Ear()
    async with a_listener(dsn) as listener:
        one, two = listener.subscribe("c", keeps), listener.subscribe("c", leaves)
        await ready(one, two)
        two.cancel()
        two.cancel()
        await send(sender, "c", "after")
        await keeps.hears("after")
        assert leaves.payloads == []
        one.cancel()
        assert listener.health.wanted == frozenset()
        await until(lambda: listener.health.in_force == frozenset())
        await ready(listener.subscribe("c", leaves))
        await send(sender, "c", "again")
        await leaves.hears("again")
        assert keeps.payloads == ["after"]


async def test_a_callback_may_cancel_itself_and_its_neighbour(dsn: str, sender: Sender) -> None:
    told: list[str] = []

    def once(value: Notified | Gap) -> None:
        if isinstance(value, Notified):
            told.append(f"once {value.payload}")
            itself.cancel()
            neighbour.cancel()

    last = Ear()
    async with a_listener(dsn) as listener:
        itself = listener.subscribe("c", once)
        neighbour = listener.subscribe("c", lambda value: told.append(f"neighbour {value}"))
        await ready(itself, neighbour, listener.subscribe("c", last))
        told.clear()
        await send(sender, "c", "1", "2")
        await last.hears("1", "2")
    assert told == ["once 1"]


async def test_a_callback_may_subscribe_to_its_own_and_to_another_channel(dsn: str, sender: Sender) -> None:
    same, other = Ear(), Ear()
    made: list[Subscription] = []

    def more(value: Notified | Gap) -> None:
        if isinstance(value, Notified) and not made:
            made.extend([listener.subscribe("c", same), listener.subscribe("d", other)])

    async with a_listener(dsn) as listener:
        await ready(listener.subscribe("c", more))
        await send(sender, "c", "1")
        await until(lambda: len(made) == 2)
        await ready(*made)
        await send(sender, "c", "2")
        await send(sender, "d", "3")
        await other.hears("3")
    assert same.told == [Gap("c"), Notified("c", "2")]


async def test_a_callback_that_raises_is_logged_and_disturbs_no_other(
    dsn: str, sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(value: Notified | Gap) -> None:
        raise LookupError(value.channel)

    ear = Ear()
    async with a_listener(dsn) as listener:
        await ready(listener.subscribe("c", fails), listener.subscribe("c", ear))
        await send(sender, "c", "1", "2")
        await ear.hears("1", "2")
        assert listener.health.is_whole
        assert listener.health.reconnects == 0
    failures = [record for record in caplog.records if record.exc_info]
    assert len(failures) == 3
    assert all("'c'" in record.getMessage() for record in failures)


@pytest.mark.requirement("S2.26")
@pytest.mark.parametrize(
    "channel", ['a"; drop table x; --', "with space", "Ünïcode", "%s", "{}", "a'b", "x" * 63]
)
async def test_any_accepted_name_is_one_channel_and_nothing_else(
    dsn: str, sender: Sender, channel: str
) -> None:
    ear = Ear()
    async with a_listener(dsn) as listener:
        await ready(listener.subscribe(channel, ear))
        await send(sender, channel, "it's; %s 'here'")
        await ear.hears("it's; %s 'here'")


@pytest.mark.requirement("S2.26")
@pytest.mark.parametrize("channel", ["", "x" * 64, "ä" * 32, "a\0b", "\ud800"])
async def test_a_name_that_postgres_would_change_or_refuse_is_refused_at_once(channel: str) -> None:
    with pytest.raises(InvalidInput, match="cannot name a channel"):
        Listener.off("test").subscribe(channel, Ear())
    with pytest.raises(InvalidInput, match="cannot name a channel"):
        notify(channel)


@pytest.mark.requirement("S2.26")
@pytest.mark.parametrize("payload", ["x" * 8000, "a\0b", "\ud800"])
def test_a_payload_that_postgres_cannot_carry_is_refused_before_it_is_sent(payload: str) -> None:
    with pytest.raises(InvalidInput, match="at most 7999 bytes"):
        notify("c", payload)


async def test_the_longest_payload_arrives(dsn: str, sender: Sender) -> None:
    ear = Ear()
    async with a_listener(dsn) as listener:
        await ready(listener.subscribe("c", ear))
        await send(sender, "c", "x" * 7999)
        await ear.hears("x" * 7999)


@given(st.text(max_size=80))
def test_an_accepted_name_has_1_to_63_bytes(name: str) -> None:
    try:
        accepted = channel_name(name)
    except InvalidInput:
        return
    assert accepted == name
    assert 1 <= len(name.encode()) <= 63


async def test_a_payload_in_no_known_encoding_is_delivered_as_far_as_it_can_be_read(
    dsn: str, sender: Sender
) -> None:
    name = f"{sender.info.dbname}_raw"
    raw, ear = make_conninfo(dsn, dbname=name), Ear()
    await sender.execute(f"create database {name} encoding 'SQL_ASCII' locale 'C' template template0")
    try:
        async with (
            a_listener(raw) as listener,
            await psycopg.AsyncConnection.connect(raw, autocommit=True) as other,
        ):
            await ready(listener.subscribe("c", ear))
            await other.execute("select pg_notify('c', convert_from('\\xe9', 'SQL_ASCII'))")
            await other.execute("select pg_notify('c', 'ok')")
            await ear.hears("\ufffd", "ok")
            assert listener.health.reconnects == 0
    finally:
        await sender.execute(f"drop database {name} with (force)")


async def test_a_listener_that_is_off_takes_subscriptions_and_says_why(said: Said) -> None:
    ear = Ear()
    async with Listener.off("the pooler is in transaction mode") as listener:
        subscription = listener.subscribe("c", ear)
        assert not subscription.is_ready
        health = listener.health
        assert not health.is_listening
        assert not health.is_whole
        assert health.last_error == "the pooler is in transaction mode"
        assert health.wanted == health.missing == {"c"}
        subscription.cancel()
        assert listener.health.wanted == frozenset()
    assert ear.told == []
    assert said.lines == []
