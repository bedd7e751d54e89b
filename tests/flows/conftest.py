from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from holdfast import App
from storage.interleaving.stepped_sessions import Story
from storage.interleaving.table_invariants import sound_at_the_end


@pytest.fixture
def story(dsn: str) -> Iterator[Story]:
    with sound_at_the_end(dsn), Story.on(dsn) as story:
        yield story


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
