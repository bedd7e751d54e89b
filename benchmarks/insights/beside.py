"""The same questions beside a worker that drains at half of what it can: how long answers take, and what they
cost the worker.

That is counted in turns, with nobody asking and while somebody asks: CPU time of the worker's process and of
the server, without the sessions that answer.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import psycopg

from benchmarks.insights.questions import Question, asked
from benchmarks.peers.crew import Child, Crew
from benchmarks.peers.effort import Effort, seconds_of

_SYSTEM = "holdfast"
_CONCURRENCY = 500
_WAITING = 5_000
_PAUSE = 0.05
"""An operator's programs ask up to twenty times a second."""
_SESSIONS = "select pid from pg_stat_activity where application_name = 'holdfast/questions'"


@dataclass(frozen=True, slots=True)
class Beside:
    """Milliseconds by question; the worker's rates; microseconds of CPU of a job, turn by turn."""

    times: dict[str, list[float]]
    full_rate: float
    half_rate: float
    alone: list[float]
    while_asked: list[float]

    @property
    def growth(self) -> float:
        """By how much a job costs more: the middle of the turns."""
        return median(b / a for a, b in zip(self.alone, self.while_asked, strict=True)) - 1


def beside_a_worker(
    dsn: str, questions: Mapping[str, Question], *, times: int, turns: int, seconds: float
) -> Beside:
    """Each question about so many times, in all turns together."""
    rounds = max(times // turns, 1)
    with Crew.start(_SYSTEM, dsn, concurrency=_CONCURRENCY) as crew:
        crew.begin()
        crew.begun()
        full_rate = _full_rate(dsn, crew, seconds)
        crew_pids = [child.pid for child in crew.children]
        answered: dict[str, list[float]] = {name: [] for name in questions}
        alone: list[float] = []
        while_asked: list[float] = []
        with _producing(dsn, full_rate / 2):
            time.sleep(seconds / 4)
            first, began = crew.tally.total, time.monotonic()
            for _ in range(turns):
                with _counted(dsn, crew, crew_pids, alone):
                    time.sleep(seconds)
                with _counted(dsn, crew, crew_pids, while_asked):
                    for name, found in asked(questions, rounds=rounds, pause=_PAUSE).items():
                        answered[name] += found
            half_rate = (crew.tally.total - first) / (time.monotonic() - began)
        return Beside(answered, full_rate, half_rate, alone, while_asked)


def _full_rate(dsn: str, crew: Crew, seconds: float) -> float:
    """Jobs per second while a producer keeps the queue filled."""
    with Child.start("flood", _SYSTEM, dsn, crew.path, _WAITING, 3 * seconds) as producer:
        producer.tell()
        crew.wait_for(_WAITING, within=60)
        time.sleep(seconds / 2)
        before, began = crew.tally.total, time.monotonic()
        time.sleep(seconds)
        return (crew.tally.total - before) / (time.monotonic() - began)


@contextmanager
def _producing(dsn: str, rate: float) -> Iterator[None]:
    with Child.start("pace", _SYSTEM, dsn, rate, 3_600) as producer:
        producer.tell()
        yield
        producer.check()


@contextmanager
def _counted(dsn: str, crew: Crew, pids: list[int], costs: list[float]) -> Iterator[None]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        answering_before = _seconds_of_answers(connection)
        at_first, before = Effort.so_far(dsn, pids), crew.tally.total
        yield
        handled = crew.tally.total - before
        effort = Effort.so_far(dsn, pids).since(at_first, handled)
        answering = sum(
            spent - answering_before.get(pid, 0) for pid, spent in _seconds_of_answers(connection).items()
        )
    costs.append(effort.both - answering / handled * 1e6)


def _seconds_of_answers(connection: psycopg.Connection) -> dict[int, float]:
    return {pid: seconds_of(pid) for (pid,) in connection.execute(_SESSIONS).fetchall()}
