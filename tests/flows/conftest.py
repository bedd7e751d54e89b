from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

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


_numbers = count(1)


@pytest.fixture
def fresh(server_dsn: str, template: str) -> Iterator[Callable[[], str]]:
    """Makes databases, each migrated and with a table to count effects in."""
    names: list[str] = []

    def make() -> str:
        name = f"killed_{next(_numbers)}"
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            connection.execute(
                sql.SQL("create database {} template {} strategy file_copy").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        names.append(name)
        dsn = make_conninfo(server_dsn, dbname=name)
        with psycopg.connect(dsn) as connection:
            connection.execute("create table effect (name text not null)")
        return dsn

    yield make
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
