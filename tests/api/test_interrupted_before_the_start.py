"""Ctrl-C or SIGTERM while a worker waits for its first connection: it ends at once, and says so."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.logs import whole_lines
from support.waiting import block_until

pytestmark = pytest.mark.machine  # programs in processes of their own

HEAD = """
import asyncio, sys
from holdfast import App

app = App(sys.argv[1] if len(sys.argv) == 2 else None)

@app.job
async def note() -> None: ...

async def beside() -> None:
    async with app.worker():
        print("it has started")

async def opened() -> None:
    async with app, app.worker():
        print("it has started")

"""
COMMAND = ["-m", "holdfast.cli", "worker", "-A", "script:app", "--dsn"]
SAID = "stopped before it had started, while it connected to 127.0.0.1:"
# A connection that is not answered is given up after ten seconds, and tried several times.
AT_ONCE = 6.0


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)
        yield listening


@pytest.mark.parametrize(
    ("end", "number", "code"),
    [
        ("holdfast worker", signal.SIGINT, 0),
        ("holdfast worker", signal.SIGTERM, 0),
        ("asyncio.run(app.run_worker())", signal.SIGINT, 0),
        ("asyncio.run(app.run_worker())", signal.SIGTERM, 0),
        ("asyncio.run(beside())", signal.SIGINT, -signal.SIGINT),
        ("asyncio.run(opened())", signal.SIGINT, -signal.SIGINT),
    ],
)
def test_a_worker_without_a_connection_ends_at_once(
    end: str, number: signal.Signals, code: int, tmp_path: Path, silent: socket.socket
) -> None:
    is_command = end == "holdfast worker"
    (tmp_path / "script.py").write_text(HEAD + ("" if is_command else end), "utf-8")
    said = tmp_path / "said"
    dsn = f"host=127.0.0.1 port={silent.getsockname()[1]} dbname=shop"
    with said.open("w", encoding="utf-8") as output:
        command = [sys.executable, *(COMMAND if is_command else ["script.py"]), dsn]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=output)
    try:
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(1), "it has begun to speak"
            began = time.monotonic()
            process.send_signal(number)
            assert process.wait(60) == code, whole_lines(said)
        assert time.monotonic() - began < AT_ONCE
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(60)
    if "opened" not in end:  # there the app itself has not been opened
        block_until(lambda: SAID in whole_lines(said), lambda: whole_lines(said), within=5)
    assert "never retrieved" not in whole_lines(said)
    assert "it has started" not in whole_lines(said)
