"""Fixtures of the Listener's tests."""

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from listener.recording_subscriber import Said


@pytest.fixture
async def sender(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Said]:
    said, logger = Said(), logging.getLogger("holdfast.postgres")
    caplog.set_level(logging.INFO, logger=logger.name)
    logger.addHandler(said)
    yield said
    logger.removeHandler(said)
