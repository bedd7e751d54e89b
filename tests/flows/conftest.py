"""An App for flows, and sessions that a test steps through its statements."""

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from holdfast import App
from storage.interleaving.stepped_sessions import Sessions
from storage.interleaving.table_invariants import sound_at_the_end


@pytest.fixture
def sessions(dsn: str) -> Iterator[Sessions]:
    with sound_at_the_end(dsn), Sessions.on(dsn) as sessions:
        yield sessions


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    with sound_at_the_end(dsn):
        async with App(dsn) as app:
            yield app


@pytest.fixture
def books(dsn: str) -> str:
    """The database, with a table to count effects in."""
    with psycopg.connect(dsn) as connection:
        connection.execute("create table deed (name text not null)")
    return dsn
