"""A shop with its books and its workers, on a database of the test's own or on a server of its own."""

import importlib.util
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.workers import Workers


@pytest.fixture
def books(dsn: str, tmp_path: Path) -> Iterator[Books]:
    books = Books(dsn, tmp_path)
    yield books
    books.close()


@pytest.fixture
def workers(dsn: str, books: Books, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(dsn, books, tmp_path)
    yield workers
    workers.destroy()


@pytest.fixture
async def shop_next(shop: Any) -> AsyncIterator[Any]:
    """The next version of the same jobs, on the same database."""
    module = _fresh("shop_next")
    async with module.app:
        yield module


@pytest.fixture
async def shop(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """The module of jobs, reloaded so that its App takes the database of this test."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    module = _fresh("shop")
    async with module.app:
        yield module


def _fresh(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
