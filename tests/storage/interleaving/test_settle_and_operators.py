"""A worker settles a run while another session cancels, reprioritises or prunes its job, or locks its key."""

import psycopg
import pytest

from holdfast.domain.job import Policy
from holdfast.domain.transition import Transition
from storage.interleaving.prepared_jobs import DONE, FAIL, RELEASE, RETRY, SNOOZE, YEAR, running
from storage.interleaving.stepped_sessions import Sessions

TURNED = [(RETRY, "cancelled"), (SNOOZE, "cancelled"), (RELEASE, "cancelled")]
UNTURNED = [(DONE, "succeeded"), (FAIL, "failed")]


@pytest.mark.parametrize(("transition", "outcome"), TURNED + UNTURNED)
def test_a_settle_that_waited_for_a_cancel_request_heeds_it(
    sessions: Sessions, transition: Transition, outcome: str
) -> None:
    """It deletes the lease as the request left it, a row version that is newer than its snapshot."""
    worker_side, operator = sessions.open_many(2)
    worker, job, run = running(worker_side)
    operator.begin()
    assert operator.cancel(job) == "requested"
    settle = sessions.start(worker_side, lambda: worker_side.settles(worker, run, transition))
    settle.waits_for(operator)
    operator.commit()
    assert settle.answer() == (job, run.run, "settled", outcome)
    assert operator.state(job) == outcome
    assert worker_side.renew(worker, run.run).missing == [run.run]


def test_a_settle_that_waited_for_a_cancel_request_that_is_rolled_back_goes_on_as_decided(
    sessions: Sessions,
) -> None:
    worker_side, operator = sessions.open_many(2)
    worker, job, run = running(worker_side)
    operator.begin()
    assert operator.cancel(job) == "requested"
    settle = sessions.start(worker_side, lambda: worker_side.settles(worker, run, RETRY)).waits_for(operator)
    operator.rollback()
    assert settle.answer().outcome == "retried"
    assert operator.state(job) == "scheduled"


def test_a_settle_stopped_by_a_third_party_heeds_two_requests_that_overtook_it(sessions: Sessions) -> None:
    """The lease changes twice while the settle waits; it must follow to the last version."""
    worker_side, operator, mark = sessions.open_many(3)
    worker, job, run = running(worker_side)
    mark.begin()
    mark.execute("update holdfast.lease set timeout_at = timeout_at where job = %s", job)
    mark.execute("update holdfast.lease set cancel_requested_at = now() where job = %s", job)
    settle = sessions.start(worker_side, lambda: worker_side.settles(worker, run, RETRY)).waits_for(mark)
    assert operator.cancel(job) == "busy"
    mark.commit()
    assert settle.answer().outcome == "cancelled"
    assert operator.cancel(job) == "final"


@pytest.mark.parametrize(
    ("transition", "answer"), [(DONE, "final"), (FAIL, "final"), (RETRY, "cancelled"), (RELEASE, "cancelled")]
)
def test_a_cancel_that_meets_a_settle_says_busy_and_afterwards_ends_what_goes_on(
    sessions: Sessions, transition: Transition, answer: str
) -> None:
    worker_side, operator = sessions.open_many(2)
    worker, job, run = running(worker_side)
    worker_side.begin()
    worker_side.settles(worker, run, transition)
    assert operator.cancel(job) == "busy"
    worker_side.commit()
    assert operator.cancel(job) == answer


def test_two_cancels_of_a_running_job_request_it_once(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    worker, job, run = running(one)
    one.begin()
    assert one.cancel(job) == "requested"
    assert two.cancel(job) == "busy"
    one.commit()
    assert two.cancel(job) == "requested"
    assert one.renew(worker, run.run).to_cancel == [run.run]


def test_a_cancel_inside_a_repeatable_read_transaction_of_its_caller_fails_when_the_run_has_changed(
    sessions: Sessions,
) -> None:
    """A caller at this isolation level gets a serialization failure, and tries again."""
    worker_side, caller = sessions.open(), sessions.open_as_caller()
    worker, job, run = running(worker_side)
    caller.begin("repeatable read")
    assert caller.state(job) == "running"
    worker_side.settles(worker, run, RETRY)
    with pytest.raises(psycopg.errors.SerializationFailure):
        caller.cancel(job)
    caller.rollback()
    assert caller.cancel(job) == "cancelled"


def test_a_release_that_waited_for_a_reprioritise_goes_back_with_the_new_priority(sessions: Sessions) -> None:
    worker_side, operator = sessions.open_many(2)
    worker, job, run = running(worker_side)
    operator.begin()
    assert operator.reprioritise(job, 0) == "changed"
    settle = sessions.start(worker_side, lambda: worker_side.settles(worker, run, RELEASE)).waits_for(
        operator
    )
    operator.commit()
    assert settle.answer().outcome == "released"
    found = operator.find(job)
    assert found is not None
    assert (found.state, found.priority, found.attempt) == ("ready", 0, 0)


def test_a_reprioritise_that_meets_a_release_says_busy_and_then_changes_the_ready_job(
    sessions: Sessions,
) -> None:
    worker_side, operator = sessions.open_many(2)
    worker, job, run = running(worker_side)
    worker_side.begin()
    worker_side.settles(worker, run, RELEASE)
    assert operator.reprioritise(job, 0) == "busy"
    worker_side.commit()
    assert operator.reprioritise(job, 0) == "changed"
    assert [row.priority for row in worker_side.claim(worker)] == [0]


def test_a_prune_does_not_see_a_job_that_is_being_settled(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side)
    leader.pass_time(YEAR)
    worker_side.begin()
    worker_side.settles(worker, run, DONE)
    assert leader.prune() == 0
    worker_side.commit()
    assert leader.prune() == 1
    assert leader.find(job) is None


def test_a_settle_sent_again_while_its_job_is_pruned_writes_nothing(sessions: Sessions) -> None:
    """Until the prune has ended the ledger still has the run; afterwards no row names it."""
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side, Policy("mail", keep=YEAR * 0))
    assert worker_side.settles(worker, run, DONE).answer == "settled"
    assert leader.find(job) is None
    leader.begin()
    assert leader.prune() == 1
    assert worker_side.settles(worker, run, DONE).answer == "already"
    leader.commit()
    assert worker_side.settles(worker, run, DONE).answer == "lost"
    assert leader.history(job) == []


@pytest.mark.requirement("S2.13")
@pytest.mark.parametrize("transition", [DONE, FAIL])
def test_a_settle_does_not_wait_for_a_caller_that_locks_its_unique_key(
    sessions: Sessions, transition: Transition
) -> None:
    worker_side, caller, next_caller = sessions.open(), sessions.open_as_caller(), sessions.open_as_caller()
    worker, job, run = running(worker_side, unique_key="invoice 7")
    caller.begin()
    assert caller.unique("invoice 7") == (job, False)
    assert worker_side.settles(worker, run, transition).answer == "settled"
    assert worker_side.key_holder("invoice 7") == job
    caller.commit()
    new = next_caller.unique("invoice 7")
    assert new.is_new
    assert worker_side.key_holder("invoice 7") == new.job


@pytest.mark.requirement("S2.13", "S2.12")
def test_a_key_left_behind_goes_with_its_job_when_no_caller_asks_for_it(sessions: Sessions) -> None:
    worker_side, caller = sessions.open(), sessions.open_as_caller()
    worker, job, run = running(worker_side, unique_key="invoice 7")
    caller.begin()
    caller.unique("invoice 7")
    worker_side.settles(worker, run, DONE)
    worker_side.pass_time(YEAR)
    assert worker_side.prune() == 0, "never waits for the caller"
    caller.rollback()
    assert worker_side.key_holder("invoice 7") == job
    assert worker_side.prune() == 1
    assert worker_side.key_holder("invoice 7") is None
