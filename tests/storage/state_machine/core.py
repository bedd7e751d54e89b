"""What all rules share: the engine, the model beside it, the clock of both, ways to choose from the model."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeVar

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from storage.state_machine.job_places import Running
from storage.state_machine.model import Model
from storage.state_machine.tables import clear
from support.engine import Engine

T = TypeVar("T")
Claim = tuple[int, int, int]  # worker, job, run

# Later than any real clock: the SQL function takes the time from Postgres, all others from us.
START = datetime(2100, 1, 1, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
# Mostly short: a day passes only once before everything is forgotten.
LENGTHS = [SECOND, SECOND, 10 * SECOND, 10 * SECOND, 5 * MINUTE, 5 * MINUTE, 2 * HOUR, 25 * HOUR, 31 * DAY]


class Core(RuleBasedStateMachine):
    engine: ClassVar[Engine]
    rival: ClassVar[psycopg.Connection[Any]]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(START)
        self.claims: list[Claim] = []
        self.engine.now = START
        clear(self.engine.connection, START)

    @property
    def now(self) -> datetime:
        return self.model.now

    @rule(length=st.sampled_from(LENGTHS))
    def pass_time(self, length: timedelta) -> None:
        self.model.now += length
        self.engine.now = self.model.now


Choices = Callable[[Any], list[T]]


def one_of(choices: Choices[T]) -> st.SearchStrategy[T]:
    """One of what the machine has at this step."""
    return st.runner().flatmap(lambda machine: st.sampled_from(choices(machine)))


def some_of(choices: Choices[T]) -> st.SearchStrategy[list[T]]:
    return st.runner().flatmap(
        lambda machine: st.lists(st.sampled_from(choices(machine)), min_size=1, max_size=3, unique=True)
    )


def live(machine: Core) -> list[Claim]:
    return [
        (job.place.worker, job.id, job.place.run)
        for job in machine.model.jobs.values()
        if isinstance(job.place, Running)
    ]


def stale(machine: Core) -> list[Claim]:
    held = set(live(machine))
    return [claim for claim in machine.claims if claim not in held]


def late(machine: Core) -> list[Claim]:
    """The most telling of stale claims: of jobs that run again, perhaps at the same worker, so that only the
    run tells the two apart; or else of runs that were taken away.
    """
    running = set(running_jobs(machine))
    old = stale(machine)
    lost = {entry.run for job in machine.model.jobs.values() for entry in job.entries if entry.is_taken_away}
    again = [claim for claim in old if claim[1] in running]
    return again or [claim for claim in old if claim[2] in lost] or old


def all_jobs(machine: Core) -> list[int]:
    """Forgotten ones and one that never was included."""
    return list(range(1, max(machine.model.jobs, default=0) + 2))


def running_jobs(machine: Core) -> list[int]:
    return [job for _, job, _ in live(machine)]


def dead_jobs(machine: Core) -> list[int]:
    return machine.model.dead()


def all_workers(machine: Core) -> list[int]:
    return list(machine.model.workers)
