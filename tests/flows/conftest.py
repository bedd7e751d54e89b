from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from engine.interleaving.places import flaws
from engine.interleaving.story import Story
from holdfast import App


@pytest.fixture
def story(dsn: str) -> Iterator[Story]:
    """However a story went: every job is in exactly one place at its end, and nothing is left behind."""
    with Story.on(dsn) as story:
        yield story
    with psycopg.connect(dsn) as connection:
        assert flaws(connection) == {}


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with App(dsn) as app:
        yield app
    with psycopg.connect(dsn) as connection:
        assert flaws(connection) == {}


@pytest.fixture
def books(dsn: str) -> str:
    """The database, with a table to count effects in."""
    with psycopg.connect(dsn) as connection:
        connection.execute("create table deed (name text not null)")
    return dsn
