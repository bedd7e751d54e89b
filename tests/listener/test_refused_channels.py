"""A channel that Postgres refuses is retried by itself, and the others do not suffer."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from holdfast.postgres.embedded import EmbeddedServer
from listener.recording_subscriber import Ear, Said, a_listener, ready, send
from support.server_faults import start_again, stop_now
from support.waiting import until

FOREIGN = "queue → 7"  # the arrow has no place in LATIN1


@pytest.mark.requirement("S2.44")
@pytest.mark.parametrize("client_encoding", ["utf8", "latin1"])
async def test_a_refused_channel_leaves_the_others_in_force(
    dsn: str, sender: psycopg.AsyncConnection[Any], said: Said, client_encoding: str
) -> None:
    name = f"{sender.info.dbname}_latin"
    await sender.execute(f"create database {name} encoding 'LATIN1' locale 'C' template template0")
    try:
        latin = make_conninfo(dsn, dbname=name, client_encoding=client_encoding)
        async with (
            a_listener(latin) as listener,
            await psycopg.AsyncConnection.connect(latin, autocommit=True) as neighbour,
        ):
            before, after, refused = Ear(), Ear(), Ear()
            await ready(listener.subscribe("before", before))
            hopeless = listener.subscribe(FOREIGN, refused)
            await ready(listener.subscribe("after", after))
            await until(lambda: listener._refusals[FOREIGN].failures > 3)
            for channel, ear in (("before", before), ("after", after)):
                await send(neighbour, channel, "x")
                await ear.hears("x")
            health = listener.health
            assert health.is_listening
            assert not health.is_whole
            assert health.missing == {FOREIGN}
            assert health.last_error is not None
            assert FOREIGN in health.last_error
            assert not hopeless.is_ready
            assert len(said.losses) == len(said.lines) == 1
            hopeless.cancel()
            await until(lambda: listener.health.is_whole)
            assert refused.told == []
            assert health.reconnects == 0
    finally:
        await sender.execute(f"drop database {name} with (force)")


@pytest.mark.requirement("S2.44")
async def test_channels_refused_by_a_standby_come_into_force_when_it_is_promoted(
    tmp_path: Path, said: Said
) -> None:
    with EmbeddedServer.start(tmp_path / "pg", settings={"fsync": "off"}) as server:
        stop_now(server, "fast")
        (server._layout.data / "standby.signal").touch()
        start_again(server)
        ears = {"one": Ear(), "two": Ear()}
        async with (
            a_listener(server.dsn, verify=False) as listener,
            await psycopg.AsyncConnection.connect(server.dsn, autocommit=True) as admin,
        ):
            subscriptions = [listener.subscribe(channel, ear) for channel, ear in ears.items()]
            await until(lambda: len(listener._refusals) == 2)
            await until(lambda: all(each.failures > 3 for each in listener._refusals.values()))
            assert listener.health.missing == {"one", "two"}
            assert "during recovery" in (listener.health.last_error or "")
            assert len(said.losses) == len(said.lines) == 2
            await admin.execute("select pg_promote()")
            await ready(*subscriptions)
            for channel, ear in ears.items():
                await send(admin, channel, "primary")
                await ear.hears("primary")
            assert listener.health.is_whole
            assert len(said.recoveries) == 2
            assert len(said.lines) == 4


async def test_with_verification_a_standby_is_not_listened_to_until_it_is_promoted(
    tmp_path: Path, said: Said
) -> None:
    with EmbeddedServer.start(tmp_path / "pg", settings={"fsync": "off"}) as server:
        stop_now(server, "fast")
        (server._layout.data / "standby.signal").touch()
        start_again(server)
        async with (
            a_listener(server.dsn) as listener,
            await psycopg.AsyncConnection.connect(server.dsn, autocommit=True) as admin,
        ):
            subscription = listener.subscribe("c", Ear())
            await until(lambda: len(said.losses) == 1)
            assert not listener.health.is_listening
            await admin.execute("select pg_promote()")
            await ready(subscription)
            assert len(said.lines) == 2
