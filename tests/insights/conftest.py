"""An App on a fresh database."""

from collections.abc import AsyncIterator

import pytest

from holdfast import App


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with App(dsn) as app:
        yield app
