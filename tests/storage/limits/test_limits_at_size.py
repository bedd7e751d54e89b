"""Limits with many jobs at the gate."""

from datetime import timedelta

import pytest

from holdfast.domain.limits import LimitSpec, Rate
from holdfast.storage import limit_rules
from storage.gate import admit, admit_once, assert_accounts, enqueue, lanes, limited, settle
from support.engine import SCHEMA, Engine

pytestmark = pytest.mark.machine

SECOND = timedelta(seconds=1)


def declare(engine: Engine, spec: LimitSpec) -> None:
    engine.hold(limit_rules.declare(SCHEMA, {"stripe": spec}, now=engine.now))


def held(engine: Engine) -> int:
    return sum(lanes(engine).values())


def work(engine: Engine, worker: int, limit: int = 100) -> int:
    claimed = engine.claim(worker, limit=limit)
    if claimed:
        settle(engine, worker, claimed)
    admit(engine)
    return len(claimed)


def test_lowered_and_raised_while_ten_thousand_wait_a_limit_converges(engine: Engine) -> None:
    declare(engine, LimitSpec(total=10))
    worker = engine.worker()
    enqueue(engine, *[limited("")] * 10_000)
    admit(engine)
    assert held(engine) == 10
    for total in (2, 30, 1, 10):
        running = engine.claim(worker, limit=100)
        engine.pass_time(SECOND)
        declare(engine, LimitSpec(total=total))
        admit(engine)
        assert held(engine) == max(total, len(running)), "what runs goes on, and no other begins"
        assert_accounts(engine)
        settle(engine, worker, running)
        admit(engine)
        assert held(engine) == total
        assert work(engine, worker) == total
        assert held(engine) == total
        assert_accounts(engine)


def test_the_first_job_of_a_newcomer_runs_within_two_windows(engine: Engine) -> None:
    """However many wait of another key, and however old they are."""
    window = 20
    declare(engine, LimitSpec(total=window, turns=True))
    worker = engine.worker()
    for _ in range(10):
        enqueue(engine, *[limited("large")] * 5_000)
    admit(engine)
    for _ in range(5):
        assert work(engine, worker, 7) == 7
    [newcomer] = enqueue(engine, limited("new"))
    admit(engine)
    begun = 0
    while True:
        claimed = engine.claim(worker, limit=1)
        assert claimed, "nothing is stuck"
        if claimed[0].job == newcomer:
            break
        begun += 1
        settle(engine, worker, claimed)
        admit(engine)
        assert begun <= 2 * window
    assert_accounts(engine)


@pytest.mark.parametrize("burst", [1, 20])
def test_after_ten_minutes_without_workers_starts_obey_the_rate(engine: Engine, burst: int) -> None:
    """Whether the jobs had passed already before the workers went, or not."""
    declare(engine, LimitSpec(rate=Rate(10, per="1s", burst=burst)))
    engine.worker()
    enqueue(engine, *[limited("")] * 600)
    admit(engine)
    for _ in range(10):
        engine.pass_time(60 * SECOND)
        admit_once(engine)
    worker = engine.worker()
    starts: list[float] = []
    for tick in range(200):
        admit_once(engine)
        claimed = engine.claim(worker, limit=100)
        starts += [tick * 0.05 for _ in claimed]
        if claimed:
            settle(engine, worker, claimed)
        engine.pass_time(timedelta(milliseconds=50))
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            assert last - first + 1 <= burst + 10 * (starts[last] - starts[first]) + 1e-6
    assert len(starts) >= 90, "and the rate is used"
