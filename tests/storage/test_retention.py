"""How long ended jobs are kept, and that prune deletes nothing else."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CancelJob, CompleteJob, FailJob, RetryJob
from holdfast.storage import chores, runs, workers
from support.engine import SCHEMA, START, Engine

AN_HOUR = timedelta(hours=1)
A_TICK = timedelta(microseconds=1)
TABLES = ("job", "ready", "scheduled", "lease", "ledger", "dead", "saved", "unique_key")


def end(engine: Engine, transition: Any, policy: Policy | None = None, **when: Any) -> int:
    job = engine.enqueue(policy, **when)
    worker = engine.worker()
    [claimed] = engine.claim(worker)
    engine.run(runs.save(SCHEMA, [runs.Saving(worker, job, claimed.run, "1")], now=engine.now))
    engine.settle(worker, claimed, transition)
    return job


def prune(engine: Engine) -> int:
    return engine.one(chores.prune(SCHEMA, now=engine.now)).moved


@pytest.mark.requirement("S3.30", "S4.22", "S1.22")
@pytest.mark.parametrize(
    ("transition", "kept"),
    [
        (CompleteJob(None, None), 24 * AN_HOUR),
        (CancelJob(None), 72 * AN_HOUR),
        (FailJob(Failure("no")), 30 * 24 * AN_HOUR),
    ],
)
def test_what_has_ended_is_kept_for_its_time_and_then_leaves_nothing(
    engine: Engine, transition: Any, kept: timedelta
) -> None:
    job = end(engine, transition, unique_key="k")
    engine.pass_time(kept - A_TICK)
    assert prune(engine) == 0
    assert engine.find(job) is not None
    engine.pass_time(A_TICK)
    assert prune(engine) == 1
    for table in TABLES:
        assert engine.connection.execute(f"select count(*) from holdfast.{table}").fetchone() == (0,), table


@pytest.mark.requirement("S3.30")
def test_expired_jobs_are_kept_like_cancelled_ones(engine: Engine) -> None:
    engine.enqueue(deadline_at=START + AN_HOUR)
    engine.pass_time(AN_HOUR)
    engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention()))
    engine.pass_time(72 * AN_HOUR - A_TICK)
    assert prune(engine) == 0
    engine.pass_time(A_TICK)
    assert prune(engine) == 1


@pytest.mark.requirement("S1.22")
def test_a_job_may_say_itself_how_long_it_is_kept(engine: Engine) -> None:
    end(engine, CompleteJob(None, None), Policy("mail", keep=AN_HOUR))
    longer = end(engine, CompleteJob(None, None), Policy("mail", keep=100 * 24 * AN_HOUR))
    engine.pass_time(AN_HOUR)
    assert prune(engine) == 1
    engine.pass_time(99 * 24 * AN_HOUR)
    assert prune(engine) == 0
    assert engine.state(longer) == "succeeded"


def test_the_operators_retention_counts_for_jobs_that_say_nothing(engine: Engine) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [claimed] = engine.claim(worker)
    settlement = runs.Settlement(worker, job, claimed.run, CompleteJob(None, None))
    retention = Retention(succeeded=AN_HOUR)
    engine.run(runs.settle(SCHEMA, [settlement], retention=retention, now=engine.now))
    engine.pass_time(AN_HOUR)
    assert prune(engine) == 1


@pytest.mark.requirement("S3.30", "S4.22")
def test_what_has_not_ended_is_never_pruned_however_old_it_is(engine: Engine) -> None:
    worker = engine.worker()
    running, retried = engine.enqueue(), engine.enqueue()
    claimed = {row.job: row for row in engine.claim(worker)}
    engine.settle(worker, claimed[retried], RetryJob(20_000 * AN_HOUR, Failure("no")))
    ready, later = engine.enqueue(), engine.enqueue(delay=20_000 * AN_HOUR)
    engine.pass_time(10_000 * AN_HOUR)
    assert prune(engine) == 0
    assert [engine.state(job) for job in (running, retried, ready, later)] == [
        "running",
        "scheduled",
        "ready",
        "scheduled",
    ]
    assert len(engine.history(retried)) == 1


@pytest.mark.requirement("S3.31", "S3.30")
def test_a_pass_is_bounded_and_looping_until_a_short_one_clears_everything(engine: Engine) -> None:
    for _ in range(25):
        engine.enqueue(Policy("mail", keep=AN_HOUR))
    worker = engine.worker()
    for claimed in engine.claim(worker, limit=25):
        engine.settle(worker, claimed, CompleteJob(None, None))
        engine.pass_time(timedelta(seconds=1))
    engine.pass_time(2 * AN_HOUR)
    since, moved = None, list[int]()
    while not moved or moved[-1] == 10:
        done = engine.one(chores.prune(SCHEMA, since=since, limit=10, now=engine.now))
        since = done.seen
        moved.append(done.moved)
    assert moved == [10, 10, 5]


@pytest.mark.requirement("S3.30", "S3.6")
def test_two_leaders_that_prune_at_once_share_the_work(dsn: str, engine: Engine) -> None:
    for _ in range(6):
        end(engine, CompleteJob(None, None))
    engine.pass_time(48 * AN_HOUR)
    with Engine.on(dsn, now=engine.now) as other, other.connection.transaction():
        assert other.one(chores.prune(SCHEMA, limit=4, now=other.now)).moved == 4
        engine.connection.execute("set statement_timeout = '5s'")
        assert prune(engine) == 2


def test_the_ledger_of_a_job_that_keeps_nothing_goes_with_the_next_prune(engine: Engine) -> None:
    job = end(engine, CompleteJob(None, None), Policy("mail", keep=timedelta()))
    assert engine.find(job) is None
    assert len(engine.history(job)) == 1  # so that a settle that is sent again is known
    assert prune(engine) == 1
    assert engine.history(job) == []


def test_a_pruned_dead_job_is_no_longer_listed(engine: Engine) -> None:
    end(engine, FailJob(Failure("no")))
    engine.pass_time(31 * 24 * AN_HOUR)
    assert prune(engine) == 1
    assert engine.dead() == []


def test_old_counters_are_deleted_in_passes(engine: Engine) -> None:
    for _ in range(3):
        end(engine, CompleteJob(None, None))
        engine.pass_time(AN_HOUR)
    assert engine.one(chores.fold(SCHEMA)).folded == 3
    keep = 2 * AN_HOUR
    assert [
        engine.one(chores.prune_counters(SCHEMA, keep=keep, limit=1, now=engine.now)) for _ in range(3)
    ] == [1, 0, 0]


def test_lost_workers_are_forgotten_when_they_hold_nothing(engine: Engine) -> None:
    engine.enqueue()
    holder, idle = engine.worker(), engine.worker()
    engine.claim(holder)
    engine.pass_time(AN_HOUR)
    engine.run(workers.mark_lost(SCHEMA, now=engine.now))
    engine.pass_time(2 * AN_HOUR)
    alive = engine.worker()
    assert engine.run(workers.forget_lost(SCHEMA, keep=AN_HOUR, now=engine.now)) == [idle]
    engine.hold(chores.rescue(SCHEMA, luck=0.5, now=engine.now, retention=Retention()))
    assert engine.run(workers.forget_lost(SCHEMA, keep=AN_HOUR, now=engine.now)) == [holder]
    assert engine.connection.execute("select id from holdfast.worker").fetchall() == [(alive,)]
