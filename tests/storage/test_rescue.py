"""Rescue: runs whose worker is gone, or that outlived their timeout, go on elsewhere or end."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from holdfast.domain.backoff import Fixed
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.storage import chores, jobs, operators, runs, workers
from support.engine import SCHEMA, START, Engine

A_MINUTE = timedelta(minutes=1)


def lose(engine: Engine) -> list[int]:
    engine.pass_time(2 * workers.LEASE)
    return engine.run(workers.mark_lost(SCHEMA, now=engine.now))


def rescue(engine: Engine, limit: int = chores.BATCH) -> list[runs.Settled]:
    taken = engine.hold(chores.rescue(SCHEMA, luck=0.5, limit=limit, now=engine.now, retention=Retention()))
    return [each.settled for each in taken]


@pytest.mark.requirement("S0.15", "S0.17", "S3.21", "S3.23", "S3.26")
def test_the_runs_of_a_lost_worker_are_retried_after_their_backoff_and_the_ledger_says_why(
    engine: Engine,
) -> None:
    found = {
        queue: engine.enqueue(Policy("mail", queue=queue, backoff=Fixed(A_MINUTE))) for queue in ("a", "b")
    }
    worker = engine.worker(queues=("a", "b"))
    numbers = {row.job: row.run for queue in found for row in engine.claim(worker, queue=queue)}
    assert lose(engine) == [worker]
    assert {(row.job, row.run, row.answer, row.outcome) for row in rescue(engine)} == {
        (job, numbers[job], "settled", "retried") for job in found.values()
    }
    for job in found.values():
        shown = engine.find(job)
        assert shown is not None
        assert engine.now is not None
        assert (shown.state, shown.attempt, shown.run_at) == ("scheduled", 1, engine.now + A_MINUTE)
        assert (shown.worker, shown.started_at, shown.finished_at) == (None,) * 3
        [entry] = engine.history(job)
        assert shown.error == entry.error
        assert (entry.outcome, entry.attempt, entry.worker, entry.is_final) == ("retried", 1, worker, False)
        assert (entry.started_at, entry.finished_at) == (START, engine.now)
        error = json.loads(entry.error or "")
        assert error["code"] == "lease_lost"
        assert "worker presumed dead" in error["message"]
        assert "lease expired without a heartbeat" in error["message"]


@pytest.mark.requirement("S1.5", "S3.26")
def test_a_rescued_job_stays_hidden_until_its_backoff_is_over(engine: Engine) -> None:
    job = engine.enqueue(Policy("mail", backoff=Fixed(A_MINUTE)))
    engine.claim(engine.worker())
    lose(engine)
    rescue(engine)
    engine.pass_time(A_MINUTE - timedelta(microseconds=1))
    assert engine.one(chores.promote(SCHEMA, now=engine.now)).moved == 0
    assert engine.claim(engine.worker()) == []
    engine.pass_time(timedelta(microseconds=1))
    assert engine.one(chores.promote(SCHEMA, now=engine.now)).moved == 1
    assert [row.job for row in engine.claim(engine.worker())] == [job]


@pytest.mark.requirement("S4.13", "S3.26", "S0.12")
def test_a_job_that_kills_its_worker_runs_out_of_attempts_and_ends_failed(engine: Engine) -> None:
    job = engine.enqueue(Policy("mail", max_attempts=3, backoff=Fixed(timedelta())))
    for attempt in (1, 2, 3):
        engine.one(chores.promote(SCHEMA, now=engine.now))
        [claimed] = engine.claim(engine.worker())
        assert claimed.attempt == attempt
        lose(engine)
        [rescued] = rescue(engine)
        assert rescued.outcome == ("retried" if attempt < 3 else "failed")
    assert engine.one(chores.promote(SCHEMA, now=engine.now)).moved == 0
    assert engine.claim(engine.worker()) == []
    dead = engine.find(job)
    assert dead is not None
    assert (dead.state, dead.attempt) == ("failed", 3)
    assert "lease expired without a heartbeat; attempts exhausted" in json.loads(dead.error or "")["message"]


@pytest.mark.requirement("S0.16")
def test_a_job_that_must_not_run_again_after_a_loss_fails_and_waits_for_an_operator(engine: Engine) -> None:
    job = engine.enqueue(Policy("mail", on_lost="fail", max_attempts=20))
    engine.claim(engine.worker())
    lose(engine)
    [rescued] = rescue(engine)
    assert rescued.outcome == "failed"
    for _ in range(3):
        engine.pass_time(timedelta(days=1))
        engine.one(chores.promote(SCHEMA, now=engine.now))
        assert engine.claim(engine.worker()) == []
    shown = engine.find(job)
    assert shown is not None
    assert (shown.state, json.loads(shown.error or "")["code"]) == ("failed", "lease_lost")
    assert engine.hold(operators.resume_dead(SCHEMA, [job], now=engine.now)) == {job: "resumed"}
    assert [row.attempt for row in engine.claim(engine.worker())] == [2]


@pytest.mark.requirement("S3.22")
def test_a_run_past_its_timeout_is_taken_away_although_its_worker_is_alive(engine: Engine) -> None:
    slow = engine.enqueue(Policy("mail", timeout=A_MINUTE))
    quick = engine.enqueue(Policy("mail", timeout=10 * A_MINUTE))
    worker = engine.worker()
    taken = {row.job: row for row in engine.claim(worker)}
    engine.pass_time(A_MINUTE + timedelta(seconds=10))
    engine.run(runs.renew(SCHEMA, worker=worker, lease=A_MINUTE, runs=[], now=engine.now))

    def overdue_by(grace: timedelta) -> list[runs.Settled]:
        taken = engine.hold(
            chores.rescue_overdue(SCHEMA, luck=0.5, grace=grace, now=engine.now, retention=Retention())
        )
        return [each.settled for each in taken]

    assert overdue_by(timedelta(seconds=10)) == []  # at the very moment it is not late
    [rescued] = overdue_by(timedelta(seconds=9))
    assert (rescued.job, rescued.outcome) == (slow, "retried")
    [entry] = engine.history(slow)
    error = json.loads(entry.error or "")
    assert (error["code"], "hard timeout exceeded" in error["message"]) == ("stale_timeout", True)
    assert engine.settle(worker, taken[slow], CompleteJob(None, None)).answer == "lost"
    assert engine.settle(worker, taken[quick], CompleteJob(None, None)).answer == "settled"


@pytest.mark.requirement("S3.22")
def test_a_job_without_a_timeout_of_its_own_has_the_default_one(engine: Engine) -> None:
    engine.enqueue()
    [claimed] = engine.claim(engine.worker())
    assert claimed.timeout_at == START + runs.TIMEOUT


def backlog(engine: Engine, count: int) -> int:
    new = [NewJob(Policy("mail")) for _ in range(count)]
    engine.hold(jobs.enqueue_many(SCHEMA, new, now=engine.now))
    worker = engine.worker()
    assert len(engine.claim(worker, limit=count)) == count
    return worker


@pytest.mark.requirement("S3.24")
def test_a_pass_takes_at_most_its_limit_and_a_short_one_says_that_none_are_left(engine: Engine) -> None:
    backlog(engine, 1_100)
    lose(engine)
    assert [len(rescue(engine)) for _ in range(4)] == [500, 500, 100, 0]


@pytest.mark.requirement("S3.24", "S3.6", "S0.7")
def test_leaders_that_rescue_at_once_never_take_a_run_twice(dsn: str, engine: Engine) -> None:
    backlog(engine, 600)
    lose(engine)

    def leader(_: int) -> list[int]:
        with Engine.on(dsn, now=engine.now) as mine:
            mine.run(workers.mark_lost(SCHEMA, now=mine.now))
            return [row.job for _ in range(12) for row in rescue(mine, limit=50) if row.answer == "settled"]

    with ThreadPoolExecutor(4) as pool:
        rescued = [job for part in pool.map(leader, range(4)) for job in part]
    assert (len(rescued), len(set(rescued))) == (600, 600)
    assert engine.connection.execute(
        "select count(*), count(distinct job) from holdfast.ledger"
    ).fetchone() == (600, 600)
    assert engine.connection.execute("select count(*) from holdfast.scheduled").fetchone() == (600,)


@pytest.mark.requirement("S3.24")
def test_a_rescue_skips_runs_that_a_worker_is_settling(dsn: str, engine: Engine) -> None:
    first, second, worker = engine.enqueue(), engine.enqueue(), engine.worker()
    one, _ = engine.claim(worker)
    lose(engine)
    with Engine.on(dsn, now=engine.now) as other, other.connection.transaction():
        other.settle(worker, one, CompleteJob(None, None))
        engine.connection.execute("set statement_timeout = '5s'")
        assert [row.job for row in rescue(engine)] == [second]
    assert engine.state(first) == "succeeded"


def test_live_workers_and_their_runs_are_left_alone(engine: Engine) -> None:
    job, worker = engine.enqueue(), engine.worker()
    engine.claim(worker)
    engine.pass_time(workers.LEASE)
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == []
    assert rescue(engine) == []
    assert engine.state(job) == "running"


@pytest.mark.requirement("S2.32")
def test_a_run_that_is_lost_behind_its_deadline_is_expired(engine: Engine) -> None:
    job = engine.enqueue(deadline_at=START + timedelta(seconds=40))
    engine.claim(engine.worker())
    lose(engine)
    [rescued] = rescue(engine)
    assert (rescued.outcome, engine.state(job)) == ("expired", "expired")


def test_a_run_that_is_lost_after_a_cancel_request_is_cancelled(engine: Engine) -> None:
    job = engine.enqueue()
    engine.claim(engine.worker())
    engine.hold(operators.cancel(SCHEMA, [job], now=engine.now, retention=Retention()))
    lose(engine)
    [rescued] = rescue(engine)
    assert (rescued.outcome, engine.state(job)) == ("cancelled", "cancelled")


@pytest.mark.requirement("S4.3")
def test_a_job_runs_at_least_once_more_after_every_loss(engine: Engine) -> None:
    job = engine.enqueue(Policy("mail", backoff=Fixed(timedelta())))
    for attempt in range(1, 6):
        engine.one(chores.promote(SCHEMA, now=engine.now))
        [claimed] = engine.claim(engine.worker())
        assert (claimed.job, claimed.attempt) == (job, attempt)
        lose(engine)
        rescue(engine)
    assert [entry.attempt for entry in engine.history(job)] == [1, 2, 3, 4, 5]
