"""The fault proxy does what its switches say, so that other tests may lean on it."""

import asyncio
import socket
from collections.abc import AsyncIterator

import psycopg
import pytest

from support.proxy import Proxy


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with Proxy.before(dsn) as proxy:
        yield proxy


async def connect(dsn: str, proxy: Proxy) -> psycopg.AsyncConnection[tuple[object, ...]]:
    async with asyncio.timeout(20):
        return await psycopg.AsyncConnection.connect(proxy.dsn(dsn), autocommit=True)


async def one(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> object:
    async with asyncio.timeout(20):
        row = await (await connection.execute("select 1")).fetchone()
    assert row is not None
    return row[0]


async def test_without_a_fault_everything_passes(dsn: str, proxy: Proxy) -> None:
    async with await connect(dsn, proxy) as connection:
        assert await one(connection) == 1
        assert proxy.since.connections == 1
        assert proxy.open_connections == 1
    await proxy.until(lambda: proxy.open_connections == 0)
    assert proxy.since.requests_swallowed == proxy.since.replies_swallowed == 0


async def test_a_large_reply_passes_whole_through_latency(dsn: str, proxy: Proxy) -> None:
    async with await connect(dsn, proxy) as connection:
        proxy.latency(0.001)
        row = await (await connection.execute("select repeat('x', 1000000)")).fetchone()
        assert row == ("x" * 1_000_000,)


async def test_a_black_hole_accepts_and_says_nothing(dsn: str, proxy: Proxy) -> None:
    proxy.black_hole()
    connecting = asyncio.create_task(connect(dsn, proxy))
    await proxy.connected()
    await proxy.request_swallowed()
    assert not connecting.done()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting


async def test_a_black_hole_stalls_open_connections_until_they_are_cut(dsn: str, proxy: Proxy) -> None:
    connection = await connect(dsn, proxy)
    proxy.black_hole()
    asking = asyncio.create_task(one(connection))
    await proxy.request_swallowed()
    proxy.pass_through()
    async with await connect(dsn, proxy) as other:
        assert await one(other) == 1
    assert not asking.done()
    proxy.reset()
    with pytest.raises(psycopg.OperationalError):
        await asking


async def test_a_connection_that_lost_nothing_in_the_black_hole_goes_on(dsn: str, proxy: Proxy) -> None:
    async with await connect(dsn, proxy) as connection:
        proxy.black_hole()
        proxy.pass_through()
        assert await one(connection) == 1


async def test_refused_connections_fail_at_once_and_open_ones_go_on(dsn: str, proxy: Proxy) -> None:
    async with await connect(dsn, proxy) as connection:
        proxy.refuse()
        with pytest.raises(psycopg.OperationalError, match="refused"):
            await connect(dsn, proxy)
        assert await one(connection) == 1
        proxy.pass_through()
        async with await connect(dsn, proxy) as other:
            assert await one(other) == 1


async def test_reset_cuts_both_sides_with_rst(dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with Proxy.to(*server.getsockname()) as proxy:
            with socket.create_connection((proxy.host, proxy.port)) as client:
                client.sendall(b"?")
                await proxy.request_passed()
                far, _ = server.accept()
                assert far.recv(1) == b"?"
                proxy.reset()
                await proxy.until(lambda: proxy.open_connections == 0)
                with far:
                    for end in (client, far):
                        with pytest.raises(ConnectionResetError):
                            end.recv(1)


@pytest.mark.parametrize("turns", range(6))
async def test_nothing_passes_after_reset_that_was_read_a_moment_before(turns: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with Proxy.to(*server.getsockname()) as proxy:
            with socket.create_connection((proxy.host, proxy.port)) as client:
                client.sendall(b"?")
                await proxy.request_passed()
                with server.accept()[0] as far:
                    far.sendall(b"!")
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    passed = proxy.since.replies_passed
                    proxy.reset()
                    await proxy.until(lambda: proxy.open_connections == 0)
                    assert proxy.since.replies_passed == passed


async def test_a_swallowed_reply_hides_a_commit_that_took_effect(dsn: str, proxy: Proxy) -> None:
    connection = await connect(dsn, proxy)
    proxy.swallow_replies()
    asking = asyncio.create_task(connection.execute("create table kept ()"))
    await proxy.reply_swallowed()
    proxy.pass_through()
    proxy.reset()
    with pytest.raises(psycopg.OperationalError):
        await asking
    async with await connect(dsn, proxy) as other:
        await other.execute("select from kept")


async def test_a_server_that_is_not_there_cuts_the_client(dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()
    async with Proxy.to(*address) as proxy:
        with pytest.raises(psycopg.OperationalError):
            await connect(dsn, proxy)
