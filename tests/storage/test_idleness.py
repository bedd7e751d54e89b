"""When a worker is idle: it runs nothing, and nothing that it could run is ready or due."""

from datetime import timedelta

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.transition import CompleteJob, RetryJob
from holdfast.storage import operators, ring
from holdfast.storage.idleness import is_idle
from support.engine import SCHEMA, Engine

A_MINUTE = timedelta(minutes=1)


def idle(engine: Engine, worker: int) -> bool:
    return engine.one(
        is_idle(SCHEMA, worker=worker, queues=["default", "other"], kinds=["mail", "pay"], now=engine.now)
    )


def test_a_worker_is_busy_from_the_enqueue_of_its_job_to_its_end(engine: Engine) -> None:
    worker = engine.worker()
    assert idle(engine, worker)
    engine.enqueue()
    assert not idle(engine, worker)
    [claimed] = engine.claim(worker)
    assert not idle(engine, worker)
    engine.settle(worker, claimed, CompleteJob("null", None))
    assert idle(engine, worker)


def test_what_another_worker_runs_does_not_count(engine: Engine) -> None:
    worker, other = engine.worker(), engine.worker()
    engine.enqueue()
    engine.claim(other)
    assert idle(engine, worker)


@pytest.mark.parametrize("policy", [Policy("unknown"), Policy("mail", queue="elsewhere")])
def test_what_the_worker_does_not_serve_does_not_count(engine: Engine, policy: Policy) -> None:
    worker = engine.worker()
    engine.enqueue(policy)
    engine.enqueue(policy, delay=A_MINUTE)
    engine.pass_time(A_MINUTE)
    assert idle(engine, worker)


def test_a_delayed_job_counts_from_its_time_on_even_if_no_leader_has_promoted_it(engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue()
    [claimed] = engine.claim(worker)
    engine.settle(worker, claimed, RetryJob(A_MINUTE, Failure("no")))
    assert idle(engine, worker)
    engine.pass_time(A_MINUTE)
    assert not idle(engine, worker)


def test_a_paused_queue_does_not_count(engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue()
    engine.enqueue(delay=A_MINUTE)
    engine.run(operators.pause(SCHEMA, queue="default", length=2 * A_MINUTE, now=engine.now))
    engine.pass_time(A_MINUTE)
    assert idle(engine, worker)
    engine.pass_time(A_MINUTE)
    assert not idle(engine, worker)


def test_a_job_that_has_passed_its_deadline_does_not_count(engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue(deadline_in=A_MINUTE)
    engine.enqueue(delay=timedelta(seconds=1), deadline_in=A_MINUTE)
    engine.pass_time(A_MINUTE)
    assert idle(engine, worker)


def test_a_job_that_was_parked_for_lack_of_a_worker_counts(engine: Engine) -> None:
    engine.worker(kinds=("of another app",))
    engine.enqueue()
    assert engine.one(ring.park(SCHEMA, segment=0, now=engine.now)) == 1
    assert not idle(engine, engine.worker())
