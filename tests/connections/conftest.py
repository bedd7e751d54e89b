"""What the tests of connections share: an observer beside the database under test, and both colours."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from connections.both_databases import Colour
from holdfast.postgres.embedded import EmbeddedServer
from support.waiting import until


@pytest.fixture(params=["async", "blocking"])
def colour(request: pytest.FixtureRequest) -> Colour:
    chosen: Colour = request.param
    return chosen


class Observer:
    """A connection of the test's own, which no fault touches."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection

    async def value(self, text: str, *params: object) -> Any:
        cursor = await self.connection.execute(text.encode(), params)
        row = await cursor.fetchone()
        return row and row[0]

    async def until(self, text: str, *params: object) -> None:
        """Until a question is answered with true."""
        await until(lambda: self.value(text, *params), text)

    async def terminate(self) -> int:
        """End every session of ours, and wait until they are gone; how many there were."""
        cursor = await self.connection.execute(
            "select pid, pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'holdfast/%'"
        )
        ended = [pid for pid, _ in await cursor.fetchall()]
        await self.until("select not exists (select from pg_stat_activity where pid = any(%s))", ended)
        return len(ended)


@pytest.fixture
async def observer(dsn: str) -> AsyncIterator[Observer]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        yield Observer(connection)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What Holdfast's connections say from WARNING on: losses and recoveries."""
    with caplog.at_level(logging.WARNING, "holdfast.postgres"):
        yield lambda: [record.getMessage() for record in caplog.records if record.name == "holdfast.postgres"]


@pytest.fixture(scope="module")
def private_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A private server that may be stopped."""
    directory: Path = tmp_path_factory.mktemp("server")
    with EmbeddedServer.start(directory, tcp=True) as running:
        yield running
