"""The command in processes of its own, on migrations made up for a test or on those of the package."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from support.waiting import block_until

_WITH_FOLDER = """
import sys
from pathlib import Path
from holdfast.cli import main
from holdfast.postgres.migrations.migration import read_migrations
sys.exit(main(sys.argv[2:], migrations=read_migrations(Path(sys.argv[1]))))
"""


def command(*args: str, folder: Path | None = None) -> list[str]:
    if folder is None:
        return [sys.executable, "-m", "holdfast.cli", *args]
    return [sys.executable, "-c", _WITH_FOLDER, str(folder), *args]


@contextmanager
def started(*args: str, folder: Path | None = None) -> Iterator["subprocess.Popen[str]"]:
    """A process that does not outlive the block, whatever the test does with it."""
    process = subprocess.Popen(
        command(*args, folder=folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(conn: psycopg.Connection, query: str, *, seconds: float = 60) -> None:
    """Until a query of one boolean answers true."""
    block_until(lambda: conn.execute(query).fetchone() == (True,), query, within=seconds)
