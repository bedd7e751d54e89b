"""The workers: `holdfast worker` as anybody would start it, with its log in a file."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.shop import QUEUES
from demo.signals import STOP_SIGNALS, take_as_ctrl_c

PROCESSES = 2
_PATIENCE_SECONDS = 20
_LAST_LINES = 15
COMMAND = (
    "worker",
    "-A",
    "demo.shop:app",
    "-q",
    ",".join(f"{name}={slots}" for name, slots in QUEUES.items()),
    "--processes",
    str(PROCESSES),
    "--lease",
    "3s",  # short, so that a rescue can be watched
    "--grace",
    "5s",
)


class WorkersDied(Exception):
    def __init__(self, log: Path) -> None:
        lines = log.read_text("utf-8").splitlines()[-_LAST_LINES:]
        super().__init__("\n".join(("the workers ended by themselves; their log says:", *lines)))


class Workers:
    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self.log = log

    def check(self) -> None:
        if self._process.poll() is not None:
            raise WorkersDied(self.log)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The workers drain. A second Ctrl-C makes them stop at once, but never leaves them running."""
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: process.send_signal(signal.SIGTERM))
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    take_as_ctrl_c()


@contextmanager
def workers(dsn: str, log: Path) -> Iterator[Workers]:
    """Drained when the block is left."""
    place = str(Path(__file__).parent.parent)
    path = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
    with log.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603  # our own command
            [sys.executable, "-m", "holdfast.cli", *COMMAND],
            env={**os.environ, "HOLDFAST_DSN": dsn, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            process_group=0,  # Ctrl-C is for the demo, which then lets them drain
        )
    try:
        yield Workers(process, log)
    finally:
        _end(process)
