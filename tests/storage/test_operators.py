"""What operators do to jobs and queues: cancel, reprioritise, pause and resume."""

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CancelJob, CompleteJob, RetryJob
from holdfast.storage import chores, job_lookup, operators, ring, runs, workers
from support.engine import SCHEMA, START, Engine

A_MINUTE = timedelta(minutes=1)


def cancel(engine: Engine, *jobs: int, **options: Any) -> dict[int, str]:
    return engine.hold(operators.cancel(SCHEMA, jobs, now=engine.now, **options, retention=Retention()))


@pytest.mark.parametrize("delay", [None, A_MINUTE])
def test_a_waiting_job_is_cancelled_at_once_and_the_ledger_says_why(
    engine: Engine, delay: timedelta | None
) -> None:
    job = engine.enqueue(delay=delay)
    assert cancel(engine, job, reason="ordered twice") == {job: "cancelled"}
    found = engine.find(job)
    assert found is not None
    assert (found.state, found.attempt, found.finished_at) == ("cancelled", 0, START)
    assert json.loads(found.error or "") == {"code": "cancelled", "message": "ordered twice"}
    assert cancel(engine, job) == {job: "final"}
    engine.pass_time(2 * A_MINUTE)
    engine.one(chores.promote(SCHEMA, now=engine.now))
    assert engine.claim(engine.worker()) == []


def test_a_parked_job_can_be_cancelled_and_reprioritised(engine: Engine) -> None:
    jobs = [engine.enqueue(Policy("fax")), engine.enqueue(Policy("fax"))]
    engine.worker()
    assert engine.one(ring.park(SCHEMA, segment=0, now=engine.now)) == 2
    assert engine.hold(operators.reprioritise(SCHEMA, jobs[:1], priority=1)) == {jobs[0]: "changed"}
    found = engine.find(jobs[0])
    assert found is not None
    assert (found.state, found.priority, found.is_parked) == ("ready", 1, True)
    assert cancel(engine, *jobs) == dict.fromkeys(jobs, "cancelled")


def test_a_running_job_gets_a_request_that_its_worker_learns_of_and_answers(dsn: str, engine: Engine) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [claimed] = engine.claim(worker)
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute('listen "holdfast.cancel"')
        assert cancel(engine, job, reason="ordered twice") == {job: "requested"}
        [told] = listener.notifies(timeout=10, stop_after=1)
        assert told.payload == str(worker)
    beat = runs.renew(SCHEMA, worker=worker, lease=A_MINUTE, runs=[claimed.run], now=engine.now)
    assert engine.one(beat).to_cancel == [claimed.run]
    found = engine.find(job)
    assert found is not None
    assert (found.state, found.cancel_requested_at) == ("running", START)
    engine.pass_time(A_MINUTE)
    assert cancel(engine, job) == {job: "requested"}  # asking again moves neither the time nor the reason
    assert engine.settle(worker, claimed, CancelJob(Failure("gave up", "cancelled"))).outcome == "cancelled"
    assert cancel(engine, job) == {job: "final"}
    [entry] = engine.run(job_lookup.history(SCHEMA, job))
    assert json.loads(entry.error or "") == {"code": "cancelled", "message": "ordered twice"}


def test_a_retry_that_a_request_cancels_keeps_its_traceback_and_says_why(engine: Engine) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [claimed] = engine.claim(worker)
    cancel(engine, job, reason="ordered twice")
    failure = Failure("broke", "handler_error", "ValueError", "line 1")
    assert engine.settle(worker, claimed, RetryJob(A_MINUTE, failure)).outcome == "cancelled"
    [entry] = engine.run(job_lookup.history(SCHEMA, job))
    assert json.loads(entry.error or "") == {
        "code": "cancelled",
        "message": "ordered twice",
        "traceback": "line 1",
    }


def test_many_jobs_are_answered_one_by_one(engine: Engine) -> None:
    worker = engine.worker()
    done, running = engine.enqueue(), engine.enqueue()
    first, _ = engine.claim(worker)
    engine.settle(worker, first, CompleteJob(None, None))
    ready, later = engine.enqueue(), engine.enqueue(delay=A_MINUTE)
    assert cancel(engine, 999_999, later, ready, running, done, ready) == {
        done: "final",
        running: "requested",
        ready: "cancelled",
        later: "cancelled",
        999_999: "unknown",
    }


def test_a_job_that_another_session_holds_is_busy_after_asking_again(dsn: str, engine: Engine) -> None:
    job = engine.enqueue()
    with Engine.on(dsn) as other, other.connection.transaction():
        other.connection.execute("select from holdfast.ready for update")
        engine.connection.execute("set statement_timeout = '5s'")
        assert cancel(engine, job) == {job: "busy"}
        assert engine.hold(operators.reprioritise(SCHEMA, [job], priority=0)) == {job: "busy"}
    assert cancel(engine, job) == {job: "cancelled"}


def test_a_reprioritised_job_takes_its_new_place_in_every_state(engine: Engine) -> None:
    worker = engine.worker()
    running = engine.enqueue()
    [claimed] = engine.claim(worker)
    first, urgent, later = engine.enqueue(), engine.enqueue(), engine.enqueue(delay=A_MINUTE)
    asked = [running, urgent, later]
    assert engine.hold(operators.reprioritise(SCHEMA, asked, priority=0)) == dict.fromkeys(asked, "changed")
    assert [row.job for row in engine.claim(worker, limit=1)] == [urgent]
    engine.settle(worker, claimed, RetryJob(A_MINUTE, Failure("no")))
    engine.pass_time(A_MINUTE)
    engine.one(chores.promote(SCHEMA, now=engine.now))
    engine.run(runs.renew(SCHEMA, worker=worker, lease=A_MINUTE, runs=[], now=engine.now))
    assert [row.job for _ in range(3) for row in engine.claim(worker, limit=1)] == [running, later, first]


def test_what_has_ended_or_never_was_keeps_its_priority(engine: Engine) -> None:
    job = engine.enqueue()
    cancel(engine, job)
    assert engine.hold(operators.reprioritise(SCHEMA, [job, 7_777], priority=0)) == {
        job: "final",
        7_777: "unknown",
    }
    found = engine.find(job)
    assert found is not None
    assert found.priority == 5


def test_a_pause_keeps_its_note_and_its_beginning_and_running_jobs_go_on(dsn: str, engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue()
    [claimed] = engine.claim(worker)
    waiting = engine.enqueue()
    paused = engine.one(operators.pause(SCHEMA, queue="default", note="mail server is down", now=engine.now))
    assert paused == ("default", START, None, "mail server is down")
    engine.pass_time(A_MINUTE)
    until = START + 5 * A_MINUTE
    again = engine.one(
        operators.pause(SCHEMA, queue="default", note="until noon", until=until, now=engine.now)
    )
    assert again == ("default", START, until, "until noon")
    assert engine.settle(worker, claimed, CompleteJob(None, None)).answer == "settled"
    assert engine.claim(worker) == []
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute('listen "holdfast.ready"; listen "holdfast.leader"')
        assert engine.run(operators.resume(SCHEMA, queue="default", now=engine.now)) == ["default"]
        heard = {(told.channel, told.payload) for told in listener.notifies(timeout=10, stop_after=2)}
        assert heard == {("holdfast.ready", "default"), ("holdfast.leader", "unpark")}
    assert engine.run(operators.resume(SCHEMA, queue="default", now=engine.now)) == []
    engine.run(runs.renew(SCHEMA, worker=worker, lease=workers.LEASE, runs=[], now=engine.now))
    assert [row.job for row in engine.claim(worker)] == [waiting]


def test_history_tells_every_run_of_a_job_oldest_first(engine: Engine) -> None:
    job, worker = engine.enqueue(), engine.worker()
    for _ in range(3):
        [claimed] = engine.claim(worker)
        engine.settle(worker, claimed, RetryJob(timedelta(), Failure("no")))
        engine.one(chores.promote(SCHEMA, now=engine.now))
    cancel(engine, job)
    assert [(entry.attempt, entry.outcome, entry.is_final) for entry in engine.history(job)] == [
        (1, "retried", False),
        (2, "retried", False),
        (3, "retried", False),
        (3, "cancelled", True),
    ]
    assert engine.history(999_999) == []
    assert engine.find(999_999) is None
