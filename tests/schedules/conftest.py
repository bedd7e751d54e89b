"""An App on a fresh database with a planner that the test drives, and a look at the tables."""

from collections.abc import AsyncIterator

import pytest

from holdfast import App
from holdfast.schedules.planner import Planner
from schedules.driven_planner import Books, Heard, planner_on


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with App(dsn) as app:
        yield app


@pytest.fixture
def books(dsn: str) -> Books:
    return Books(dsn)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def planner(dsn: str, heard: Heard) -> AsyncIterator[Planner]:
    async with planner_on(dsn, heard) as planner:
        yield planner
