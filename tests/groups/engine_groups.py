"""Groups on an `Engine`: written, worked on and closed statement by statement, on a clock that is moved."""

from collections.abc import Sequence
from typing import Any

from holdfast.domain.job import NewJob, Policy
from holdfast.domain.transition import CompleteJob
from holdfast.storage import flows, groups
from support.engine import SCHEMA, Engine

MAIL = Policy("mail")
THEN = Policy("report")


def write(engine: Engine, jobs: Sequence[NewJob], **more: Any) -> int:
    new = groups.NewGroup(then=NewJob(THEN), **more)
    group, _ = engine.hold(groups.create(SCHEMA, new, jobs, notify=False, now=engine.now))
    return group


def work(engine: Engine, worker: int, transition: Any = None) -> int:
    """Run all that is ready; how many there were."""
    claimed = engine.claim(worker, limit=100)
    for run in claimed:
        engine.settle(worker, run, transition or CompleteJob("7", None))
    return len(claimed)


def wake(engine: Engine) -> list[int]:
    """The leader takes the wake-ups, and counts."""
    ids, _ = engine.hold(flows.wake(SCHEMA, now=engine.now))
    return ids


def row(engine: Engine, group: int) -> groups.GroupRow:
    return engine.one(groups.show_group(SCHEMA, group, now=engine.now))


def close(engine: Engine, group: int) -> groups.Closed:
    return engine.hold(groups.close_if_over(SCHEMA, group, now=engine.now))


def followers(engine: Engine) -> int:
    [(count,)] = engine.connection.execute("select count(*) from holdfast.job where kind = 'report'")
    return int(count)
