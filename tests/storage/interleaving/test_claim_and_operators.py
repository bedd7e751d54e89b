"""A worker claims a job while an operator cancels, reprioritises or pauses it."""

import pytest

from holdfast.storage import operators
from storage.interleaving.prepared_jobs import DONE, RETRY, blocking_runs
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA


@pytest.mark.requirement("S2.17")
def test_a_cancel_that_meets_a_claim_under_way_says_busy_and_then_requests(sessions: Sessions) -> None:
    worker_side, operator = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    worker_side.begin()
    [run] = worker_side.claim(worker)
    assert operator.cancel(job) == "busy"
    worker_side.commit()
    assert operator.cancel(job) == "requested"
    assert worker_side.renew(worker, run.run).to_cancel == [run.run]
    assert worker_side.settles(worker, run, RETRY).outcome == "cancelled"


def test_a_cancel_after_a_claim_was_rolled_back_ends_the_job(sessions: Sessions) -> None:
    worker_side, operator = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    worker_side.begin()
    worker_side.claim(worker)
    worker_side.rollback()
    assert operator.cancel(job) == "cancelled"
    assert worker_side.claim(worker) == []
    assert operator.state(job) == "cancelled"


@pytest.mark.requirement("S2.17")
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_claim_steps_over_a_job_that_is_being_cancelled(sessions: Sessions, is_kept: bool) -> None:
    worker_side, operator = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    operator.begin()
    assert operator.cancel(job) == "cancelled"
    assert worker_side.claim(worker) == []
    if is_kept:
        operator.commit()
        assert worker_side.claim(worker) == []
        assert operator.state(job) == "cancelled"
    else:
        operator.rollback()
        assert [row.job for row in worker_side.claim(worker)] == [job]


def test_a_claim_that_began_before_a_cancel_ended_does_not_wake_the_dead(sessions: Sessions) -> None:
    worker_side, operator, mark = sessions.open_many(3)
    worker, job = worker_side.worker(), worker_side.enqueue()
    with mark.holding("select from holdfast.worker where id = %s for update", worker):
        claim = sessions.start(worker_side, lambda: worker_side.claim(worker)).waits_for(mark)
        assert operator.cancel(job) == "cancelled"
    assert claim.answer() == []
    assert operator.state(job) == "cancelled"


def test_a_reprioritise_that_meets_a_claim_under_way_says_busy_and_then_changes(sessions: Sessions) -> None:
    worker_side, operator = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    worker_side.begin()
    [run] = worker_side.claim(worker)
    assert operator.reprioritise(job, 1) == "busy"
    worker_side.commit()
    assert operator.reprioritise(job, 1) == "changed"
    worker_side.settles(worker, run, RETRY)
    worker_side.pass_time(RETRY.delay)
    assert worker_side.promote() == 1
    assert [row.priority for row in worker_side.claim(worker)] == [1]


def test_a_claim_steps_over_a_job_that_is_being_reprioritised_and_finds_it_afterwards(
    sessions: Sessions,
) -> None:
    worker_side, operator = sessions.open_many(2)
    worker = worker_side.worker()
    urgent, job = worker_side.enqueue(), worker_side.enqueue()
    operator.begin()
    assert operator.reprioritise(job, 0) == "changed"
    assert [row.job for row in worker_side.claim(worker)] == [urgent]
    operator.commit()
    [run] = worker_side.claim(worker)
    assert (run.job, run.priority) == (job, 0)


def test_a_claim_that_began_before_a_reprioritise_leaves_the_moved_job_to_the_next(
    sessions: Sessions,
) -> None:
    """The row it saw is gone, and the one in its place is too new for it. Nothing is claimed twice."""
    worker_side, operator, mark = sessions.open_many(3)
    worker, job = worker_side.worker(), worker_side.enqueue()
    with mark.holding("select from holdfast.worker where id = %s for update", worker):
        claim = sessions.start(worker_side, lambda: worker_side.claim(worker)).waits_for(mark)
        assert operator.reprioritise(job, 0) == "changed"
    assert claim.answer() == []
    assert [row.job for row in worker_side.claim(worker)] == [job]


def test_a_claim_stopped_in_the_middle_keeps_its_job_from_both_operators(sessions: Sessions) -> None:
    worker_side, operator, mark = sessions.open_many(3)
    worker, job = worker_side.worker(), worker_side.enqueue()
    with blocking_runs(mark):
        claim = sessions.start(worker_side, lambda: worker_side.claim(worker)).waits_for(mark)
        assert operator.cancel(job) == "busy"
        assert operator.reprioritise(job, 0) == "busy"
    [run] = claim.answer()
    assert worker_side.settles(worker, run, DONE).outcome == "succeeded"


def test_a_claim_under_way_when_its_queue_is_paused_keeps_its_jobs_and_the_next_gets_none(
    sessions: Sessions,
) -> None:
    worker_side, operator = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    worker_side.enqueue()
    worker_side.begin()
    [run] = worker_side.claim(worker, limit=1)
    operator.run(operators.pause(SCHEMA, queue="default", now=operator.now))
    worker_side.commit()
    assert run.job == job
    assert worker_side.claim(worker) == []
    assert worker_side.settles(worker, run, DONE).outcome == "succeeded"
    operator.run(operators.resume(SCHEMA, queue="default", now=operator.now))
    assert len(worker_side.claim(worker)) == 1
