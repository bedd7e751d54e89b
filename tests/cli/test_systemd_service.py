"""What `holdfast worker` tells systemd as a service of `Type=notify` with a watchdog."""

import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cli.worker_processes import Start, enqueue

pytestmark = pytest.mark.machine  # each starts several interpreters


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[socket.socket]:
    """The socket that systemd would listen on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(str(tmp_path / "notify"))
        line.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield line


def next_but_the_watchdog(line: socket.socket) -> bytes:
    while (word := line.recv(100)) == b"WATCHDOG=1":
        pass
    return word


@pytest.mark.parametrize("processes", ["1", "2"])
def test_it_says_when_it_is_up_that_it_works_and_when_it_stops(
    start: Start, line: socket.socket, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    worker = start("--processes", processes)
    assert next_but_the_watchdog(line) == b"READY=1"
    worker.wait_for_log("worker started")
    assert line.recv(100) == b"WATCHDOG=1"
    worker.signal()
    assert next_but_the_watchdog(line) == b"STOPPING=1"
    assert worker.ended() == 0


def test_it_says_nothing_to_the_watchdog_while_its_event_loop_is_blocked(
    start: Start, conn: psycopg.Connection, line: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    start("--lease", "1s")
    assert next_but_the_watchdog(line) == b"READY=1"
    enqueue(conn, "block_the_loop", seconds=60)
    line.settimeout(2)  # many times its pace
    with pytest.raises(TimeoutError):
        next_but_the_watchdog(line)
