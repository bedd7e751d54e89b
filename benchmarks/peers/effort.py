"""What a run costs in CPU time, worker and server apart: a figure that a busy machine hardly changes."""

import os
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
        with psycopg.connect(dsn) as connection:
            postmaster = _parent(connection.info.backend_pid)
        alive = [pid for pid in _pids() if _parent(pid) == postmaster]
        # A process that has ended is counted with the parent that has waited for it.
        server = _seconds(postmaster, is_with_ended=True) + sum(map(_seconds, alive))
        return cls(sum(map(_seconds, workers)), server)

    def since(self, before: "Effort", jobs: int) -> "Effort":
        """For one job, in microseconds."""
        return Effort(
            (self.workers - before.workers) / jobs * 1e6, (self.server - before.server) / jobs * 1e6
        )

    def __str__(self) -> str:
        return f"{self.workers:.0f} + {self.server:.0f} µs of CPU a job"


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


def _seconds(pid: int, *, is_with_ended: bool = False) -> float:
    return sum(map(int, _stat(pid)[11 : 15 if is_with_ended else 13])) / _TICK
