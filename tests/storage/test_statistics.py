"""Figures over time: what settles append and the leader folds is what the ledger says."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from math import ceil
from typing import Any

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.histogram import bucket_of
from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob, FailJob, RetryJob
from holdfast.insights.stats import read_stats
from holdfast.insights.stats_records import Spread, Stats
from holdfast.storage import chores, operators, runs
from holdfast.storage.completions import RunToComplete, complete_one
from holdfast.storage.statistics import count_enqueued, enqueue_open, enqueue_top, prune_statistics
from support.engine import SCHEMA, START, Engine

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
DONE = CompleteJob(None, None)


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with Engine.on(dsn) as engine:
        yield engine


def stats(engine: Engine, since: str = "1h", **asked: Any) -> Stats:
    engine.run(chores.fold(SCHEMA))
    return engine.hold(read_stats(SCHEMA, since=since, now=engine.now, **asked))


def count_all(engine: Engine) -> None:
    found = engine.one(enqueue_top(SCHEMA))
    assert engine.one(enqueue_open(SCHEMA)) == frozenset()
    engine.run(count_enqueued(SCHEMA, mark=found.mark, top=found.top))


def complete(engine: Engine, worker: int, claimed: list[runs.ClaimRow]) -> None:
    settlements = [runs.Settlement(worker, run.job, run.run, DONE) for run in claimed if run.job is not None]
    engine.run(runs.settle(SCHEMA, settlements, retention=Retention(), now=engine.now))


def assert_percentiles(found: Spread, lengths: list[timedelta]) -> None:
    assert found.runs == len(lengths)
    assert found.mean == pytest.approx(sum(lengths, timedelta()) / len(lengths), abs=SECOND)
    for percent, told in ((50, found.p50), (95, found.p95), (99, found.p99)):
        exact = sorted(lengths)[ceil(len(lengths) * percent / 100) - 1]
        assert told is not None
        assert abs(told - exact) <= 0.1 * exact, percent


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_within_a_tenth_of_the_ledger(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    worker = engine.worker()
    for _ in range(40):
        for _ in range(chance.randint(1, 5)):
            engine.enqueue(delay=None)
            engine.pass_time(timedelta(seconds=chance.lognormvariate(-3, 2)))
        claimed = engine.claim(worker)
        engine.pass_time(timedelta(seconds=chance.lognormvariate(-3, 2)))
        split = chance.randint(0, len(claimed))
        complete(engine, worker, claimed[:split])
        for run in claimed[split:]:
            engine.pass_time(timedelta(seconds=chance.lognormvariate(-3, 2)))
            one = RunToComplete(worker, run.job or 0, run.run, DONE, chance.random() < 0.5)
            engine.run(complete_one(SCHEMA, one, retention=Retention(), now=engine.now))
    rows = engine.connection.execute(
        "select started_at - ready_at, finished_at - started_at from holdfast.ledger"
    ).fetchall()
    total = stats(engine, "24h").total
    assert total.outcomes == {"succeeded": len(rows)}
    assert_percentiles(total.wait, [wait for wait, _ in rows])
    assert_percentiles(total.run, [took for _, took in rows])


def test_a_retry_waits_from_the_end_of_its_backoff(engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue()
    [run] = engine.claim(worker)
    engine.settle(worker, run, RetryJob(10 * MINUTE, Failure("no")))
    engine.pass_time(10 * MINUTE)
    engine.run(chores.promote(SCHEMA, now=engine.now))
    engine.pass_time(2 * SECOND)
    [run] = engine.claim(worker)
    engine.settle(worker, run, FailJob(Failure("no")))
    found = stats(engine)
    assert found.total.outcomes == {"failed": 1, "retried": 1}
    assert found.total.failed == 2
    assert found.total.failure_share == 1
    assert found.total.wait.p99 == pytest.approx(2 * SECOND, rel=0.1)


def test_a_run_counts_as_started_in_its_minute_while_it_runs_and_after(engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue()
    [run] = engine.claim(worker)
    engine.pass_time(5 * MINUTE)

    def started() -> list[datetime]:
        found = stats(engine, "10m")
        assert found.total.started == sum(kind.figures.started for kind in found.kinds) == 1
        return [point.at for point in found.points for _ in range(point.figures.started)]

    assert started() == [START]
    engine.settle(worker, run, DONE)
    assert started() == [START]
    ended = {point.at: point.figures.ended for point in stats(engine, "10m").points}
    assert ended[START] == 0
    assert stats(engine, "10m").total.ended == 1


def test_figures_are_told_by_queue_and_kind_and_narrowed_to_them(engine: Engine) -> None:
    worker = engine.worker(queues=("a", "b"), kinds=("mail", "pay"))
    for kind, queue in (("mail", "a"), ("mail", "b"), ("pay", "b"), ("pay", "b")):
        engine.enqueue(Policy(kind, queue=queue))
    for queue in ("a", "b"):
        complete(engine, worker, engine.claim(worker, queue=queue, kinds=("mail", "pay")))
    count_all(engine)
    engine.pass_time(SECOND)
    found = stats(engine)
    assert {each.name: each.figures.enqueued for each in found.queues} == {"a": 1, "b": 3}
    assert {each.name: each.figures.succeeded for each in found.kinds} == {"mail": 2, "pay": 2}
    assert (found.total.enqueued, found.total.started, found.total.ended) == (4, 4, 4)
    narrow = stats(engine, queue="b", kind="mail")
    assert (narrow.total.enqueued, narrow.total.ended) == (1, 1)
    assert [each.name for each in narrow.queues] == ["b"]


def test_points_cover_the_range_and_add_up(engine: Engine) -> None:
    worker = engine.worker()
    for _ in range(30):
        engine.enqueue()
        complete(engine, worker, engine.claim(worker))
        engine.pass_time(MINUTE)
    count_all(engine)
    for resolution, pieces in (("1m", 60), ("10m", 6)):
        found = stats(engine, "1h", resolution=resolution)
        assert len(found.points) == pieces + 1, "the last one has just begun"
        assert sum(point.figures.ended for point in found.points) == found.total.ended == 30
        assert sum(point.figures.enqueued for point in found.points) == 30
    before = stats(engine, "10m", until=START + 10 * MINUTE)
    assert (before.since, before.until) == (START, START + 10 * MINUTE)
    assert (before.total.ended, len(before.points)) == (10, 10)


def test_hours_hold_the_same_as_their_minutes(engine: Engine) -> None:
    worker = engine.worker()
    for n in range(25):
        engine.enqueue()
        engine.pass_time(timedelta(seconds=n + 1))
        claimed = engine.claim(worker)
        engine.pass_time(timedelta(minutes=7))
        complete(engine, worker, claimed)
        if n % 3 == 0:
            engine.run(chores.fold(SCHEMA))
    count_all(engine)
    minutes = stats(engine, "6h", resolution="1m")
    hours = stats(engine, "6h", resolution="1h")
    assert minutes.total == hours.total
    assert minutes.total.wait.runs == 25
    assert (hours.since, minutes.since) == (START - 3 * HOUR, START - 3 * HOUR)


def test_a_job_that_ends_without_a_run_has_no_wait_and_no_start(engine: Engine) -> None:
    engine.hold(operators.cancel(SCHEMA, [engine.enqueue()], retention=Retention(), now=engine.now))
    engine.pass_time(SECOND)
    total = stats(engine).total
    assert (total.outcomes, total.started, total.wait.runs, total.run.mean) == ({"cancelled": 1}, 0, 0, None)


def test_minutes_are_kept_for_a_week_and_hours_for_ninety_days(engine: Engine) -> None:
    worker = engine.worker()
    for _ in range(2):
        engine.enqueue()
        complete(engine, worker, engine.claim(worker))
        engine.pass_time(timedelta(days=8))
    count_all(engine)
    engine.run(chores.fold(SCHEMA))
    tables = ("beginning", "beginning_hour", "counter_hour")

    def left() -> list[int]:
        return [
            engine.connection.execute(f"select count(*) from holdfast.{table}".encode()).fetchall()[0][0]
            for table in tables
        ]

    assert left() == [2, 2, 2]
    engine.pass_time(-DAY)
    assert engine.one(prune_statistics(SCHEMA, now=engine.now)) == 1
    assert left() == [1, 2, 2], "eight days ago: only its minutes are gone"
    engine.pass_time(timedelta(days=76))
    assert engine.one(prune_statistics(SCHEMA, now=engine.now)) == 3
    assert left() == [0, 1, 1]


def enqueued(engine: Engine) -> int:
    rows = engine.connection.execute("select coalesce(sum(enqueued), 0) from holdfast.beginning").fetchall()
    return int(rows[0][0])


def test_two_leaders_count_each_new_job_once(engine: Engine, dsn: str) -> None:
    for _ in range(3):
        engine.enqueue()
    with Engine.on(dsn) as other:
        found = other.one(enqueue_top(SCHEMA))
        counting = count_enqueued(SCHEMA, mark=found.mark, top=found.top)
        assert engine.run(counting) == [3]
        assert other.run(counting) == [], "the mark has moved"
    assert enqueued(engine) == 3


def test_new_jobs_are_counted_in_bounded_passes(engine: Engine) -> None:
    for _ in range(5):
        engine.enqueue()
    top = engine.one(enqueue_top(SCHEMA)).top
    passes = []
    while (mark := engine.one(enqueue_top(SCHEMA)).mark) < top:
        passes += engine.run(count_enqueued(SCHEMA, mark=mark, top=top, limit=2))
    assert passes == [2, 2, 1]
    assert enqueued(engine) == 5


def test_a_job_that_keeps_nothing_counts_as_enqueued_when_it_ends(engine: Engine) -> None:
    worker, nothing = engine.worker(), Policy("mail", keep=timedelta())
    engine.enqueue(nothing)
    before_its_end = engine.enqueue(nothing)
    first, second = engine.claim(worker)
    engine.settle(worker, first, DONE)
    count_all(engine)
    assert stats(engine).total.enqueued == 1, "it is gone before the leader looks"
    engine.settle(worker, second, DONE)
    count_all(engine)
    engine.pass_time(SECOND)
    assert stats(engine).total.enqueued == 2
    assert second.job == before_its_end


def test_only_transactions_that_have_drawn_an_id_are_waited_for(engine: Engine, dsn: str) -> None:
    with Engine.on(dsn) as reader, Engine.on(dsn) as writer:
        with reader.connection.transaction(), writer.connection.transaction():
            reader.connection.execute("select count(*) from holdfast.job")
            writer.enqueue()
            assert len(engine.one(enqueue_open(SCHEMA))) == 1
        assert engine.one(enqueue_open(SCHEMA)) == frozenset()


def test_buckets_of_sql_are_those_of_python(engine: Engine) -> None:
    worker, jobs = engine.worker(), Counter[int]()
    for exponent in range(-9, 22):
        took = timedelta(seconds=2.0**exponent)
        engine.enqueue()
        claimed = engine.claim(worker)
        engine.pass_time(took)
        complete(engine, worker, claimed)
        jobs[exponent] += 1
    rows = engine.connection.execute("select run_time, run_buckets[1] from holdfast.tally").fetchall()
    assert len(rows) == jobs.total()
    assert [bucket for _, bucket in rows] == [bucket_of(took) for took, _ in rows]
