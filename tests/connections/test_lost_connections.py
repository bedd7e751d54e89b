"""Every way to lose a connection, survived by both pools."""

import asyncio
from collections.abc import Callable
from time import monotonic

import pytest

from connections.both_databases import BACKEND, Colour, asking, entered, opened
from connections.conftest import Observer
from holdfast.errors import ConnectionFailed, ConnectionLost
from holdfast.postgres.availability import Availability
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.embedded.postmaster import StopMode
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.pooler_detection import PoolerMode
from support.proxy import Proxy
from support.server_faults import restart, start_again, stop_now
from support.waiting import until

Lines = Callable[[], list[str]]

# Counts its runs, even those that are rolled back, and waits for the observer's lock.
COUNT_AND_WAIT = (
    "select nextval('runs') from (select pg_advisory_xact_lock_shared(nextval('begun') * 0 + 7)) as l"
)
WAITING = "select exists (select from pg_locks where locktype = 'advisory' and not granted)"


@pytest.fixture
async def runs(observer: Observer) -> Observer:
    await observer.connection.execute("create sequence runs minvalue 0 start 0; create sequence begun")
    await observer.connection.execute("select pg_advisory_lock(7)")
    return observer


async def test_connections_that_ended_while_idle_are_not_lent(
    colour: Colour, dsn: str, observer: Observer, lines: Lines
) -> None:
    async with opened(colour, dsn, PoolOptions(pool_max_conns=4)) as database:
        before = await database.spread(4)
        # On a busy machine one of them may answer twice before another is asked.
        assert await observer.terminate() >= len(before) > 1
        after = await database.spread(4)
        assert not before & after
    loss, recovery = lines()
    assert "lost, reconnecting: terminating connection due to administrator command" in loss
    assert "is back after" in recovery


async def test_a_statement_that_may_be_repeated_is_repeated_when_its_backend_ends(
    colour: Colour, dsn: str, runs: Observer, lines: Lines
) -> None:
    async with opened(colour, dsn) as database, asyncio.TaskGroup() as tasks:
        answer = tasks.create_task(database.run_one(asking(COUNT_AND_WAIT, is_repeatable=True)))
        await runs.until(WAITING)
        await runs.terminate()
        await runs.until(WAITING)
        await runs.connection.execute("select pg_advisory_unlock(7)")
        await answer
    assert await runs.value("select last_value from begun") == 2
    assert len(lines()) == 2


async def test_a_statement_that_may_not_be_repeated_is_lost_and_runs_once(
    colour: Colour, dsn: str, runs: Observer
) -> None:
    async with opened(colour, dsn) as database:
        running = asyncio.create_task(database.run_one(asking(COUNT_AND_WAIT)))
        await runs.until(WAITING)
        await runs.terminate()
        with pytest.raises(ConnectionLost, match=r"asking: .* whether it took effect is unknown") as raised:
            await running
        assert raised.value.sqlstate == "57P01"
        assert raised.value.__cause__ is not None
        await runs.connection.execute("select pg_advisory_unlock(7)")
        assert await database.run_one(BACKEND)
    assert await runs.value("select last_value from begun") == 1


async def test_nothing_is_repeated_inside_a_transaction(colour: Colour, dsn: str, runs: Observer) -> None:
    await runs.connection.execute("create table kept (n int)")
    insert = asking("insert into kept values (1) returning n", is_repeatable=True)
    async with opened(colour, dsn) as database:
        wait = asking(COUNT_AND_WAIT, is_repeatable=True)
        running = asyncio.create_task(database.run_together([insert, wait]))
        await runs.until(WAITING)
        await runs.terminate()
        with pytest.raises(ConnectionLost):
            await running
        assert await database.run(asking("select count(*) from kept")) == [0]
    assert await runs.value("select last_value from begun") == 1


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_of_the_server_costs_a_wait_and_no_error(
    colour: Colour, mode: StopMode, private_server: EmbeddedServer, lines: Lines
) -> None:
    async with opened(colour, private_server.dsn, PoolOptions(pool_max_conns=3)) as database:
        before = await database.spread(3)
        await asyncio.to_thread(restart, private_server, mode)
        assert not before & await database.spread(3)
    assert len(lines()) == 2


async def test_a_caller_waits_for_a_server_that_is_away(
    colour: Colour, private_server: EmbeddedServer, lines: Lines
) -> None:
    async with opened(colour, private_server.dsn) as database:
        await database.run(BACKEND)
        await asyncio.to_thread(stop_now, private_server)
        try:
            waiting = asyncio.create_task(database.run_one(BACKEND))
            await until(lambda: bool(lines()))
        finally:
            await asyncio.to_thread(start_again, private_server)
        async with asyncio.timeout(20):
            assert await waiting


async def test_a_server_that_stays_away_is_said_to_be_away_and_then_found_again(
    colour: Colour, dsn: str, lines: Lines
) -> None:
    async with Proxy.before(dsn) as proxy:
        options = PoolOptions(pool_timeout="3s", pool_max_conns=3)
        async with opened(colour, proxy.dsn(dsn), options) as database:
            await database.spread(3)
            proxy.refuse()
            proxy.reset()
            await proxy.until(lambda: proxy.open_connections == 0)
            with pytest.raises(
                ConnectionFailed, match=r"no connection to 127.0.0.1:.* within 3 s: .*refused"
            ):
                await database.run_one(BACKEND)
            with pytest.raises(ConnectionFailed):
                await database.run_one(BACKEND)
            proxy.pass_through()
            assert await database.run_one(BACKEND)
    assert len(lines()) == 2


async def test_a_pooler_that_lets_clients_in_while_its_server_is_away_is_one_outage(
    colour: Colour, dsn: str, lines: Lines
) -> None:
    """Logging in proves nothing there: only an answer does."""
    async with Proxy.before(dsn) as proxy:
        front = Dsn.parse(proxy.dsn(dsn))
        together = Availability.of(front)
        together.behind(PoolerMode.TRANSACTION_POOLER)
        kind = Database if colour == "async" else BlockingDatabase
        options = PoolOptions(pool_timeout="3s", pool_max_conns=2)
        async with entered(kind(front, options, availability=together)) as database:
            await database.run(BACKEND)
            said = len(lines())  # that it is behind a pooler
            proxy.only_log_in()
            for _ in range(3):
                with pytest.raises((ConnectionLost, ConnectionFailed)):
                    await database.run_one(BACKEND)
            await proxy.until(lambda: proxy.since.connections >= 3)
            proxy.pass_through()
            assert await database.run_one(BACKEND)
            [lost, back] = lines()[said:]
    assert "lost, reconnecting" in lost
    assert "is back after" in back


async def test_a_connection_cut_by_the_network_is_replaced(colour: Colour, dsn: str) -> None:
    async with Proxy.before(dsn) as proxy, opened(colour, proxy.dsn(dsn)) as database:
        await database.spread(3)
        proxy.reset()
        await proxy.until(lambda: proxy.open_connections == 0)
        assert await database.run_one(BACKEND)


async def test_silence_ends_at_the_reply_timeout_and_the_silent_ones_are_not_asked_again(
    colour: Colour, dsn: str, lines: Lines
) -> None:
    async with Proxy.before(dsn) as proxy:
        options = PoolOptions(reply_timeout="1s", pool_max_conns=4, pool_timeout="20s")
        async with opened(colour, proxy.dsn(dsn), options) as database:
            before = await database.spread(4)
            proxy.black_hole()
            with pytest.raises(ConnectionLost, match=r"no reply within 1 s \(reply_timeout\)"):
                await database.run_one(BACKEND)
            proxy.pass_through()
            began = monotonic()
            assert not before & await database.spread(3)
            assert monotonic() - began < 15
    assert "no reply within 1 s" in lines()[0]


async def test_a_statement_whose_reply_was_swallowed_is_sent_again_if_it_may_be(
    colour: Colour, dsn: str, observer: Observer
) -> None:
    await observer.connection.execute("create table once (id int primary key)")
    insert = asking(
        "insert into once values (1) on conflict (id) do update set id = excluded.id returning id",
        is_repeatable=True,
    )
    options = PoolOptions(reply_timeout="1s")
    async with Proxy.before(dsn) as proxy, opened(colour, proxy.dsn(dsn), options) as database:
        await database.run(BACKEND)
        proxy.swallow_replies()
        answer = asyncio.create_task(database.run(insert))
        await proxy.reply_swallowed()
        assert await observer.value("select count(*) from once") == 1
        proxy.pass_through()
        assert await answer == [1]
    assert await observer.value("select count(*) from once") == 1


async def test_a_server_that_became_read_only_is_left_for_the_one_that_can_be_written(
    colour: Colour, dsn: str, observer: Observer, lines: Lines
) -> None:
    """As after a failover: connections that were made before go on speaking with the old primary."""
    await observer.connection.execute("create table kept (n int)")
    await _set_read_only(observer, "on")
    async with opened(colour, dsn, PoolOptions(pool_max_conns=8)) as database:
        before = await database.spread(8)
        await _set_read_only(observer, "off")
        assert await database.run_one(asking("insert into kept values (1) returning n")) == 1
        assert not before & await database.spread(3)
    assert lines() == []


async def _set_read_only(observer: Observer, value: str) -> None:
    database = await observer.value("select current_database()")
    await observer.connection.execute(
        f'alter database "{database}" set default_transaction_read_only = {value}'.encode()
    )


async def test_a_session_that_the_server_ended_by_its_rules_is_replaced_without_a_word(
    colour: Colour, dsn: str, observer: Observer, lines: Lines
) -> None:
    async with opened(colour, f"{dsn} options='-c idle_session_timeout=100'") as database:
        backend = await database.run_one(BACKEND)
        await observer.until("select not exists (select from pg_stat_activity where pid = %s)", backend)
        assert await database.run_one(BACKEND) != backend
    assert lines() == []


@pytest.mark.machine  # it takes its time
@pytest.mark.requirement("S4.21")
async def test_a_silence_that_one_pool_knows_of_cuts_the_waits_of_others(colour: Colour, dsn: str) -> None:
    async with Proxy.before(dsn) as proxy:
        front = Dsn.parse(proxy.dsn(dsn))
        together = Availability.of(front)
        kind = Database if colour == "async" else BlockingDatabase
        async with entered(kind(front, PoolOptions(reply_timeout="1h"), availability=together)) as database:
            await database.run(BACKEND)
            proxy.black_hole()
            waiting = asyncio.create_task(database.run_one(BACKEND))
            await proxy.request_swallowed()
            together.fell_silent(monotonic())
            with pytest.raises(ConnectionLost):
                await asyncio.wait_for(waiting, 30)
            proxy.pass_through()
            assert await database.run_one(BACKEND)
