"""Workers of `holdfast worker` that end with their test, in a folder with their app."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from cli.worker_processes import APP, Start, WorkerProcess, worker_process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    return tmp_path


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


@pytest.fixture
def start(folder: Path, dsn: str) -> Iterator[Start]:
    """Starts workers that end with the test."""
    with ExitStack() as stack:

        def started(*arguments: str) -> WorkerProcess:
            return stack.enter_context(worker_process(folder, dsn, "-A", "shop:app", *arguments))

        yield started
