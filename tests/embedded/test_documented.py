"""The page on the embedded server names all that there is, and its examples are run as they stand."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast import errors
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.embedded.binaries import find_binaries
from support.doc_examples import DOCS, run_page

PAGE = DOCS / "how-to" / "embedded-postgres.md"


@pytest.fixture
def server(directory: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(directory) as server:
        yield server


def test_every_option_and_every_error_is_on_the_page() -> None:
    options = inspect.signature(EmbeddedServer.start).parameters
    kinds = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.EmbeddedError) and kind is not errors.EmbeddedError
    }
    page = PAGE.read_text("utf-8")
    assert not [name for name in {*options, *kinds} if f"`{name}" not in page]


def test_the_url_leads_where_the_dsn_does(server: EmbeddedServer) -> None:
    for address in (server.dsn, server.url):
        with psycopg.connect(address) as connection:
            assert connection.info.dbname == "holdfast"
            assert connection.info.backend_pid > 0
    for driver in ("psycopg", "psycopg2"):
        engine = create_engine(server.url.replace("postgresql:", f"postgresql+{driver}:"))
        with engine.connect() as connection:
            assert connection.execute(text("select current_database()")).scalar_one() == "holdfast"
        engine.dispose()


async def test_the_url_is_one_for_asyncpg_too(server: EmbeddedServer) -> None:
    engine = create_async_engine(server.url.replace("postgresql:", "postgresql+asyncpg:"))
    async with engine.connect() as connection:
        assert (await connection.execute(text("select current_database()"))).scalar_one() == "holdfast"
    await engine.dispose()


def test_every_example_runs_and_the_address_is_one_for_psql(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(command: list[str], **options: Any) -> Any:
        done = real(
            [*command, "-XAtc", "select current_database()"], capture_output=True, check=True, text=True
        )
        ran.append(done.stdout.strip())

    real = subprocess.run
    monkeypatch.chdir(directory.parent)
    with EmbeddedServer.start():
        with monkeypatch.context() as only_here:
            only_here.setattr(subprocess, "run", run)
            run_page("how-to/embedded-postgres.md", only_here)
        [line] = re.findall(r"^(psql .*)$", PAGE.read_text("utf-8"), re.MULTILINE)
        places = (Path(sys.executable).parent, find_binaries().directory, os.environ["PATH"])
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, places)))
        found = real(
            ["/bin/sh", "-c", f"{line} -XAtc 'select 42'"], capture_output=True, text=True, check=True
        )
    assert (ran, found.stdout.strip()) == (["holdfast"], "42")
