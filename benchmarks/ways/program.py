"""A program as its documentation starts it: one command line, its output in a file, ended in every case."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers.child import as_url
from benchmarks.peers.tally import Tally

ROOT = Path(__file__).parents[2]
TALLY = "WAYS_TALLY"
"""The variable that tells handlers where they count what they have handled."""

_PROCESSES = 64
_TAIL = 2_000


class Program:
    """Its process is the first of a group, with all that it starts, so that all of it can be ended."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, tally: Tally) -> None:
        self._process = process
        self._log = log
        self.tally = tally

    @classmethod
    @contextmanager
    def start(cls, command: Sequence[str], dsn: str) -> Iterator["Program"]:
        """The first word is a script beside this Python, as in an environment that is activated."""
        with (
            tempfile.TemporaryDirectory(prefix="holdfast-ways-") as directory,
            Tally.at(Path(directory) / "tally", _PROCESSES) as tally,
            (Path(directory) / "log").open("wb") as log,
        ):
            script = str(Path(sys.executable).with_name(command[0]))
            with subprocess.Popen(
                [script, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, **environment(dsn), TALLY: str(Path(directory) / "tally")},
                start_new_session=True,
            ) as process:
                try:
                    yield cls(process, Path(directory) / "log", tally)
                finally:
                    end(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, number: int, *, within: float) -> float:
        """Until so many jobs are handled. The monotonic time at which that was seen."""
        ends = time.monotonic() + within
        while (total := self.tally.total) < number:
            self.check()
            if time.monotonic() > ends:
                raise TimeoutError(f"{total:,} of {number:,} jobs within {within:g} s: {self._said()}")
            time.sleep(0.002)
        return time.monotonic()

    def check(self) -> None:
        if (status := self._process.poll()) is not None:
            raise ChildProcessError(f"{self._process.args!r} ended with {status}: {self._said()}")

    @property
    def log_bytes(self) -> int:
        return self._log.stat().st_size

    def _said(self) -> str:
        return self._log.read_bytes()[-_TAIL:].decode(errors="replace")


def environment(dsn: str) -> Mapping[str, str]:
    """Where the database is, in the words of each system; and where our modules are."""
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    return {
        "HOLDFAST_DSN": dsn,
        "DATABASE_URL": as_url(dsn),
        "PGHOST": parts["host"],
        "PGPORT": parts["port"],
        "PGUSER": parts["user"],
        "PGDATABASE": parts["dbname"],
        "PYTHONPATH": str(ROOT),
    }


def end(process: "subprocess.Popen[bytes]") -> None:
    """Also what it has started: nothing of it is to go on in the next measure."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
