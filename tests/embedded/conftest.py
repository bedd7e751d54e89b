"""One initialised directory for all tests here, since initdb takes most of a second; and its users."""

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.server_users import User
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.embedded.layout import Layout
from holdfast.postgres.embedded.processes import processes_of, send
from support.waiting import block_until

FAST = {"fsync": "off"}


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("prepared") / ".holdfast"
    EmbeddedServer.start(directory, settings=FAST).stop()
    return directory


@pytest.fixture
def directory(prepared: Path) -> Iterator[Path]:
    """An initialised directory in which no server runs; whatever a test leaves running is ended."""
    yield prepared
    end_processes(prepared)


@pytest.fixture
def own_directory(prepared: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy, for tests that damage or move it."""
    copy = tmp_path / ".holdfast"
    shutil.copytree(prepared, copy, ignore=shutil.ignore_patterns(".s.PGSQL.*"))
    yield copy
    end_processes(copy)
    shutil.rmtree(copy)


def end_processes(directory: Path) -> None:
    for pid in processes_of(Layout(directory).data):
        send(pid, signal.SIGKILL)
    block_until(lambda: not processes_of(Layout(directory).data), "all processes are dead")


@pytest.fixture
def server(directory: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(directory, settings=FAST) as running:
        yield running


@pytest.fixture
def user(directory: Path) -> Iterator[Callable[..., User]]:
    """Makes a user of `directory` in another process; it has not started the server yet."""
    made: list[User] = []

    def make(**options: object) -> User:
        made.append(User(directory, {"settings": FAST, **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()
