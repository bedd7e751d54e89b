"""An App on a fresh database, and another session that sees what it has committed."""

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from api.observer import Observer
from holdfast import App


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with App(dsn) as app:
        yield app


@pytest.fixture
def blocking_app(dsn: str) -> Iterator[App]:
    """For tests without an event loop."""
    app = App(dsn)
    yield app
    app.close_sync()


@pytest.fixture
def observer(dsn: str) -> Iterator[Observer]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield Observer(connection)
