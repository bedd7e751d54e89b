"""`app.open()`, `app.migrate()`, and `async with app:`, which opens."""

from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from holdfast import App
from holdfast.errors import ConnectionFailed, SchemaError
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.storage.migrations import known_version


@pytest.fixture
def empty_dsn(dsn: str) -> str:
    """An App on a database without Holdfast's schema."""
    with psycopg.connect(dsn) as connection:
        connection.execute("drop schema holdfast cascade")
    return dsn


async def test_migrate_makes_the_tables_and_answers_their_version(empty_dsn: str) -> None:
    app = App(empty_dsn)
    with pytest.raises(SchemaError):
        await app.open()
    assert await app.migrate() == known_version()
    assert await app.migrate() == known_version()
    async with app:
        assert await app.queues.list() == []


def test_migrate_and_open_block_with_their_twins(empty_dsn: str) -> None:
    app = App(empty_dsn)
    with pytest.raises(SchemaError):
        app.open_sync()
    assert app.migrate_sync() == known_version()
    app.open_sync()
    app.close_sync()


async def test_entering_an_app_opens_it(dsn: str) -> None:
    with pytest.raises(ConnectionFailed):
        async with App(make_conninfo(dsn, dbname="nowhere")):
            pytest.fail("it was entered")


async def test_the_first_job_on_the_callers_connection_finds_a_private_server_migrated(
    tmp_path: Path,
) -> None:
    app = App(f"embedded:{tmp_path / 'data'}")

    @app.job
    def work() -> None: ...

    async with app:
        with EmbeddedServer.start(tmp_path / "data") as server:
            async with await psycopg.AsyncConnection.connect(server.dsn) as connection:
                handle = await work.using(conn=connection).enqueue()
        assert (await handle.status()).state == "ready"
