"""What a run costs in CPU time, worker and server apart: a figure that a busy machine hardly changes."""

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import psycopg

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Effort:
    """Seconds of CPU."""

    workers: float
    server: float

    @classmethod
    def so_far(cls, dsn: str, workers: list[int]) -> "Effort":
        """Of these processes, with those that they have started, and of the whole server."""
        with psycopg.connect(dsn) as connection:
            postmaster = _parent(connection.info.backend_pid)
        children = _children()
        return cls(
            sum(_seconds_of_all(pid, children) for pid in workers), _seconds_of_all(postmaster, children)
        )

    def since(self, before: "Effort", jobs: int) -> "Effort":
        """For one job, in microseconds."""
        return Effort(
            (self.workers - before.workers) / jobs * 1e6, (self.server - before.server) / jobs * 1e6
        )

    @property
    def both(self) -> float:
        return self.workers + self.server

    def show(self) -> str:
        return f"{self.workers:.0f} + {self.server:.0f}"

    def __str__(self) -> str:
        return f"{self.show()} µs of CPU a job"


def busy_seconds() -> float:
    """Of all cores and all programs of this machine, and what a hypervisor kept for others."""
    user, nice, system, _idle, _waiting, *rest = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, (user, nice, system, *rest))) / _TICK


def seconds_of(pid: int) -> float:
    """Of one process that may have ended: then none."""
    return sum(map(int, _stat(pid)[11:15])) / _TICK


def _pids() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """From the third field on: the second is a name, with whatever in it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["0"] * 20


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _children() -> dict[int, list[int]]:
    """Of every process that has some."""
    found: dict[int, list[int]] = defaultdict(list)
    for pid in _pids():
        found[_parent(pid)].append(pid)
    return found


def _seconds_of_all(pid: int, children: dict[int, list[int]]) -> float:
    """A process that has ended is counted with the parent that has waited for it."""
    return seconds_of(pid) + sum(_seconds_of_all(child, children) for child in children.get(pid, []))
