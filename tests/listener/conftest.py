from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from listener.hearing import Said


@pytest.fixture
async def sender(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    return Said(caplog)
