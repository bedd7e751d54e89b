"""Dead jobs: failed for good, kept for an operator to inspect, resume, retry or delete."""

import json
from datetime import timedelta

import psycopg
import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob, FailJob
from holdfast.storage import chores, operators, runs
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


@pytest.mark.requirement("S2.30")
def test_the_dead_are_listed_newest_first_with_all_that_an_operator_needs(engine: Engine) -> None:
    jobs = []
    for n in range(5):
        engine.pass_time(A_MINUTE)
        jobs.append(die(engine, message=f"error {n}"))
    first = engine.run(operators.dead_jobs(SCHEMA, limit=3))
    assert [dead.job for dead in first] == jobs[:1:-1]
    newest = first[0]
    assert (newest.kind, newest.queue, newest.attempt, newest.args) == (
        "mail",
        "default",
        3,
        '{"n":"error 4"}',
    )
    assert (newest.died_at, json.loads(newest.error or "")["message"]) == (START + 5 * A_MINUTE, "error 4")
    rest = engine.run(operators.dead_jobs(SCHEMA, before=first[-1], limit=3))
    assert [dead.job for dead in rest] == jobs[1::-1]


def test_pages_part_the_dead_of_one_moment_without_loss(engine: Engine) -> None:
    jobs = [die(engine) for _ in range(7)]
    seen: list[int] = []
    last = None
    while page := engine.run(operators.dead_jobs(SCHEMA, before=last, limit=2)):
        seen += [dead.job for dead in page]
        last = page[-1]
    assert seen == jobs[::-1]


def test_the_dead_are_found_by_queue_and_kind(engine: Engine) -> None:
    mail, fax, other = die(engine), die(engine, Policy("fax")), die(engine, Policy("mail", queue="other"))
    assert [dead.job for dead in engine.run(operators.dead_jobs(SCHEMA, kind="fax"))] == [fax]
    assert [dead.job for dead in engine.run(operators.dead_jobs(SCHEMA, queue="other"))] == [other]
    assert [dead.job for dead in engine.run(operators.dead_jobs(SCHEMA, queue="default", kind="mail"))] == [
        mail
    ]


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
    assert engine.run(operators.dead_jobs(SCHEMA)) == []


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


def test_a_purge_deletes_those_named_with_all_that_is_known_of_them(engine: Engine) -> None:
    gone, kept, alive = die(engine), die(engine), engine.enqueue()
    assert engine.one(operators.purge_dead(SCHEMA, jobs=[gone, alive, 999_999])) == 1
    assert (engine.find(gone), engine.history(gone)) == (None, [])
    assert (engine.state(kept), engine.state(alive)) == ("failed", "ready")
    assert engine.connection.execute("select job from holdfast.saved").fetchall() == [(kept,)]
    assert engine.one(operators.purge_dead(SCHEMA, jobs=[])) == 0


def test_a_purge_before_a_time_goes_in_passes_oldest_first(engine: Engine) -> None:
    jobs = []
    for _ in range(5):
        jobs.append(die(engine))
        engine.pass_time(A_DAY)
    before = START + 3 * A_DAY
    assert [engine.one(operators.purge_dead(SCHEMA, before=before, limit=2)) for _ in range(3)] == [2, 1, 0]
    assert [engine.find(job) is None for job in jobs] == [True] * 3 + [False] * 2


def test_resume_and_purge_skip_rows_that_another_session_holds(dsn: str, engine: Engine) -> None:
    job = die(engine)
    with Engine.on(dsn) as other, other.connection.transaction():
        other.connection.execute("select from holdfast.dead for update")
        engine.connection.execute("set statement_timeout = '5s'")
        assert engine.hold(operators.retry_dead(SCHEMA, [job], now=engine.now)) == {job: "busy"}
        assert engine.one(operators.purge_dead(SCHEMA, jobs=[job])) == 0
    assert engine.state(job) == "failed"
