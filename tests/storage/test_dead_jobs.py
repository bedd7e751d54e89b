"""Dead jobs: failed for good, kept for an operator to inspect, resume, retry or delete."""

from datetime import timedelta

import psycopg
import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob, FailJob
from holdfast.storage import chores, job_verbs, operators, runs
from support.engine import SCHEMA, START, Engine

A_MINUTE = timedelta(minutes=1)
A_DAY = timedelta(days=1)


def die(engine: Engine, policy: Policy | None = None, message: str = "no", **when: object) -> int:
    """A job that has failed for good at its third attempt."""
    policy = policy or Policy("mail", max_attempts=3)
    job = engine.enqueue(policy, {"n": message}, **when)
    worker = engine.worker(queues=(policy.queue,), kinds=(policy.kind,))
    engine.connection.execute("update holdfast.ready set attempt = 2 where job = %s", [job])
    [claimed] = engine.claim(worker, queue=policy.queue, kinds=(policy.kind,))
    engine.run(runs.save(SCHEMA, [runs.Saving(worker, job, claimed.run, '{"page": 7}')], now=engine.now))
    assert engine.settle(worker, claimed, FailJob(Failure(message))).outcome == "failed"
    return job


@pytest.mark.requirement("S1.6")
def test_a_resumed_job_has_one_more_attempt_with_what_it_saved(engine: Engine) -> None:
    job = die(engine)
    assert engine.hold(operators.resume_dead(SCHEMA, [job], now=engine.now)) == {job: "resumed"}
    found = engine.find(job)
    assert found is not None
    assert (found.state, found.attempt, found.finished_at) == ("ready", 2, None)
    assert "handler_error" in str(found.error), "why it was tried again"
    [claimed] = engine.claim(engine.worker())
    assert (claimed.attempt, claimed.max_attempts, claimed.state) == (3, 3, '{"page": 7}')
    assert engine.connection.execute("select from holdfast.dead").fetchall() == []


def test_a_job_that_begins_again_has_all_its_attempts_and_nothing_saved(engine: Engine) -> None:
    job = die(engine)
    assert engine.hold(operators.retry_dead(SCHEMA, [job], now=engine.now)) == {job: "retried"}
    worker = engine.worker()
    [claimed] = engine.claim(worker)
    assert (claimed.attempt, claimed.state) == (1, None)
    engine.settle(worker, claimed, CompleteJob("1", None))
    assert engine.state(job) == "succeeded"
    outcomes = [(entry.outcome, entry.is_final) for entry in engine.history(job)]
    assert outcomes == [("failed", False), ("succeeded", True)]


def test_resuming_wakes_the_queue_and_answers_for_each(dsn: str, engine: Engine) -> None:
    job, alive = die(engine), engine.enqueue()
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute('listen "holdfast.ready"')
        answers = engine.hold(operators.retry_dead(SCHEMA, [job, job, alive, 999_999], now=engine.now))
        [told] = listener.notifies(timeout=10, stop_after=1)
        assert told.payload == "default"
    assert answers == {job: "retried", alive: "unknown", 999_999: "unknown"}


def test_a_job_that_was_resumed_behind_its_deadline_is_expired_and_not_run(engine: Engine) -> None:
    job = die(engine, deadline_at=START + A_MINUTE)
    engine.pass_time(A_MINUTE)
    assert engine.hold(operators.retry_dead(SCHEMA, [job], now=engine.now)) == {job: "retried"}
    assert engine.claim(engine.worker()) == []
    assert engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention())).moved == 1
    assert engine.state(job) == "expired"


def test_a_deletion_takes_along_all_that_is_known_of_a_job(engine: Engine) -> None:
    gone, kept, alive = die(engine), die(engine), engine.enqueue()
    assert engine.hold(job_verbs.delete(SCHEMA, [gone, alive, 999_999], with_waiting=False)) == {
        gone: "deleted",
        alive: "active",
        999_999: "unknown",
    }
    assert (engine.find(gone), engine.history(gone)) == (None, [])
    assert (engine.state(kept), engine.state(alive)) == ("failed", "ready")
    assert engine.connection.execute("select job from holdfast.saved").fetchall() == [(kept,)]
    assert engine.hold(job_verbs.delete(SCHEMA, [])) == {}


def test_retry_and_deletion_skip_rows_that_another_session_holds(dsn: str, engine: Engine) -> None:
    job = die(engine)
    with Engine.on(dsn) as other, other.connection.transaction():
        other.connection.execute("select from holdfast.dead for update")
        engine.connection.execute("set statement_timeout = '5s'")
        assert engine.hold(operators.retry_dead(SCHEMA, [job], now=engine.now)) == {job: "busy"}
        assert engine.hold(job_verbs.delete(SCHEMA, [job])) == {job: "busy"}
    assert engine.state(job) == "failed"
