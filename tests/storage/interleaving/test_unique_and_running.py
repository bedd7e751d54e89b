"""A caller asks for a unique key while the job that holds it is claimed, settled or cancelled."""

import json

import psycopg
import pytest

from holdfast.domain.transition import Transition
from holdfast.domain.uniqueness import OnConflict
from storage.interleaving.prepared_jobs import DONE, MINUTE, RETRY, blocking_tallies, running
from storage.interleaving.session import Session
from storage.interleaving.stepped_sessions import Sessions

NEW = {"version": 2}


def replace(caller: Session) -> tuple[int, bool]:
    return caller.unique("invoice 7", on_conflict="replace", args=NEW)


def args_of(session: Session, job: int) -> object:
    found = session.find(job)
    assert found is not None
    return json.loads(found.args)


def test_a_replace_that_meets_a_claim_under_way_leaves_the_job_as_it_was(sessions: Sessions) -> None:
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    job = caller.unique("invoice 7").job
    worker = worker_side.worker()
    worker_side.begin()
    [run] = worker_side.claim(worker)
    assert replace(caller) == (job, False)
    worker_side.commit()
    assert args_of(worker_side, job) == {}
    assert worker_side.settles(worker, run, DONE).outcome == "succeeded"


def test_a_claim_steps_over_a_job_that_is_being_replaced_and_gets_its_new_contents(
    sessions: Sessions,
) -> None:
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    job = caller.unique("invoice 7").job
    worker = worker_side.worker()
    caller.begin()
    assert replace(caller) == (job, False)
    assert worker_side.claim(worker) == []
    caller.commit()
    [run] = worker_side.claim(worker)
    assert (run.job, json.loads(run.args)) == (job, NEW)


def test_a_claim_that_began_before_a_replace_never_runs_old_contents(sessions: Sessions) -> None:
    caller, worker_side, mark = sessions.open_as_caller(), sessions.open(), sessions.open()
    job = caller.unique("invoice 7").job
    worker = worker_side.worker()
    with mark.holding("select from holdfast.worker where id = %s for update", worker):
        claim = sessions.start(worker_side, lambda: worker_side.claim(worker)).waits_for(mark)
        assert replace(caller) == (job, False)
    assert claim.answer() == []
    assert [json.loads(row.args) for row in worker_side.claim(worker)] == [NEW]


@pytest.mark.requirement("S2.12")
@pytest.mark.parametrize("on_conflict", ["existing", "raise", "replace"])
def test_an_enqueue_waits_for_the_settle_that_frees_its_key_and_is_new(
    sessions: Sessions, on_conflict: OnConflict
) -> None:
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    worker, job, run = running(worker_side, unique_key="invoice 7")
    worker_side.begin()
    worker_side.settles(worker, run, DONE)
    enqueue = sessions.start(caller, lambda: caller.unique("invoice 7", on_conflict=on_conflict))
    enqueue.waits_for(worker_side)
    worker_side.commit()
    answer = enqueue.answer()
    assert answer.is_new
    assert answer.job != job


@pytest.mark.requirement("S2.11", "S2.13")
def test_an_enqueue_is_given_the_existing_job_when_the_settle_that_frees_its_key_is_rolled_back(
    sessions: Sessions,
) -> None:
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    worker, job, run = running(worker_side, unique_key="invoice 7")
    worker_side.begin()
    worker_side.settles(worker, run, DONE)
    enqueue = sessions.start(caller, lambda: caller.unique("invoice 7")).waits_for(worker_side)
    worker_side.rollback()
    assert enqueue.answer() == (job, False)


@pytest.mark.requirement("S2.13")
def test_a_retry_keeps_its_key_and_no_caller_waits_for_it(sessions: Sessions) -> None:
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    worker, job, run = running(worker_side, unique_key="invoice 7")
    worker_side.begin()
    worker_side.settles(worker, run, RETRY)
    assert caller.unique("invoice 7") == (job, False)
    assert replace(caller) == (job, False), "moving counts as existing"
    worker_side.commit()
    assert replace(caller) == (job, False)
    assert caller.state(job) == "ready"
    assert args_of(caller, job) == NEW


@pytest.mark.requirement("S2.12", "S2.13")
@pytest.mark.parametrize("transition", [DONE, RETRY])
def test_a_replace_whose_job_is_settled_between_its_statements_replaces_what_stands_then(
    sessions: Sessions, transition: Transition
) -> None:
    """The caller holds the key, so the settle leaves it; the job that ended gives way to a new one."""
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    worker, job, run = running(worker_side, unique_key="invoice 7")
    caller.begin()
    assert caller.unique("invoice 7") == (job, False)
    worker_side.settles(worker, run, transition)
    answer = replace(caller)
    caller.commit()
    assert answer == (job, False) if transition is RETRY else answer[1]
    assert args_of(caller, answer[0]) == NEW
    assert caller.key_holder("invoice 7") == answer[0]


def test_a_replace_in_repeatable_read_fails_when_its_job_was_claimed_after_the_snapshot(
    sessions: Sessions,
) -> None:
    """The caller chose this isolation level: it gets a serialization failure, and tries again."""
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    job = caller.unique("invoice 7").job
    caller.begin("repeatable read")
    assert caller.state(job) == "ready"
    [run] = worker_side.claim(worker_side.worker())
    with pytest.raises(psycopg.errors.SerializationFailure):
        replace(caller)
    caller.rollback()
    assert replace(caller) == (run.job, False)


def test_a_cancel_frees_a_key_that_others_asked_for_meanwhile(sessions: Sessions) -> None:
    """The caller that was given the existing job has touched the key; the key still goes with the job."""
    caller, operator, mark = sessions.open_as_caller(), sessions.open(), sessions.open()
    job = caller.unique("invoice 7").job
    with blocking_tallies(mark):
        cancel = sessions.start(operator, lambda: operator.cancel(job)).waits_for(mark)
        assert caller.unique("invoice 7") == (job, False)
    assert cancel.answer() == "cancelled"
    assert operator.key_holder("invoice 7") is None


def test_an_expiry_frees_a_key_that_others_asked_for_meanwhile(sessions: Sessions) -> None:
    caller, leader, mark = sessions.open_as_caller(), sessions.open(), sessions.open()
    job = caller.unique("invoice 7", deadline_in=MINUTE).job
    leader.pass_time(2 * MINUTE)
    with blocking_tallies(mark):
        expiry = sessions.start(leader, leader.expire).waits_for(mark)
        assert caller.unique("invoice 7") == (job, False)
    assert expiry.answer() == 1
    assert leader.key_holder("invoice 7") is None


def test_a_cancel_does_not_wait_for_a_caller_that_locks_the_key(sessions: Sessions) -> None:
    caller, operator = sessions.open_as_caller(), sessions.open()
    job = caller.unique("invoice 7").job
    caller.begin()
    assert caller.unique("invoice 7") == (job, False)
    assert operator.cancel(job) == "cancelled"
    caller.commit()
    assert caller.unique("invoice 7").is_new


@pytest.mark.requirement("S2.12")
def test_a_settle_frees_a_key_that_others_asked_for_meanwhile(sessions: Sessions) -> None:
    caller, worker_side, mark = sessions.open_as_caller(), sessions.open(), sessions.open()
    worker, job, run = running(worker_side, unique_key="invoice 7")
    with blocking_tallies(mark):
        settle = sessions.start(worker_side, lambda: worker_side.settles(worker, run, DONE)).waits_for(mark)
        assert caller.unique("invoice 7") == (job, False)
    assert settle.answer().outcome == "succeeded"
    assert caller.key_holder("invoice 7") is None
