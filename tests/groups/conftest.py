"""An App for groups, on a database whose tables are sound at the end."""

from collections.abc import AsyncIterator, Iterator

import pytest

from groups.kinds import Kinds
from holdfast import App
from storage.interleaving.table_invariants import sound_at_the_end
from support.engine import Engine


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    with sound_at_the_end(dsn):
        async with App(dsn) as app:
            yield app


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with Engine.on(dsn) as engine:
        yield engine


@pytest.fixture
def kinds(app: App) -> Kinds:
    return Kinds.of(app)
