"""Child processes from the side of whoever measures: started, told, asked, and ended in every case."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.peers.tally import Tally


class Child:
    """One process of `benchmarks.peers.child`, ready to begin."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.hear("ready")

    @classmethod
    @contextmanager
    def start(cls, act: str, system: str, dsn: str, *rest: object) -> Iterator["Child"]:
        arguments = [sys.executable, "-m", "benchmarks.peers.child", act, system, dsn, *map(str, rest)]
        with subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                yield cls(process)
            finally:
                # Its own session keeps Ctrl-C from it, so that it ends in one way only.
                process.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def check(self) -> None:
        if (status := self._process.poll()) is not None:
            raise ChildProcessError(f"{self._process.args!r} ended with {status}")

    def tell(self) -> None:
        """To begin, or to end."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def hear(self, wanted: object = None) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"{self._process.args!r} ended with {self._process.wait(10)}")
        heard = json.loads(line)
        if wanted is not None and heard != wanted:
            raise ChildProcessError(f"expected {wanted!r}, heard {heard!r}")
        return heard


def act(name: str, system: str, dsn: str, *rest: object) -> Any:
    """Begin, and wait for the answer."""
    with Child.start(name, system, dsn, *rest) as child:
        child.tell()
        return child.hear()


class Crew:
    """Worker processes of one system and what they have handled together."""

    def __init__(self, children: list[Child], tally: Tally, path: Path) -> None:
        self.children = children
        self.tally = tally
        self.path = path

    @classmethod
    @contextmanager
    def start(
        cls, system: str, dsn: str, *, concurrency: int, processes: int = 1, mode: str = "count"
    ) -> Iterator["Crew"]:
        with ExitStack() as stack:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-tally-"))) / "tally"
            tally = stack.enter_context(Tally.at(path, processes))
            children = [
                stack.enter_context(Child.start("work", system, dsn, concurrency, path, index, mode))
                for index in range(processes)
            ]
            yield cls(children, tally, path)

    def wait_for(self, number: int, *, within: float) -> float:
        """Until so many jobs are handled. The monotonic time at which that was seen."""
        ends = time.monotonic() + within
        while (total := self.tally.total) < number:
            if time.monotonic() > ends:
                raise TimeoutError(f"{total:,} of {number:,} jobs were handled within {within:g} s")
            for child in self.children:
                child.check()
            time.sleep(0.002)
        return time.monotonic()

    def begin(self) -> None:
        for child in self.children:
            child.tell()

    def begun(self) -> None:
        for child in self.children:
            child.hear("working")

    def end(self) -> list[int]:
        """The latencies that they have seen."""
        for child in self.children:
            child.tell()
        return [latency for child in self.children for latency in child.hear()]


def wait_until_finished(dsn: str, unfinished: str, *, within: float = 60) -> float:
    """Handled is not finished: only the database's word counts. The monotonic time at which it was given."""
    ends = time.monotonic() + within
    with psycopg.connect(dsn, autocommit=True) as connection:
        while True:
            row = connection.execute(unfinished.encode()).fetchone()
            if row is not None and row[0] == 0:
                return time.monotonic()
            if time.monotonic() > ends:
                raise TimeoutError(f"{row} jobs are not finished: {unfinished}")
            time.sleep(0.002)
