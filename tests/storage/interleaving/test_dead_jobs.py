"""Several sessions resume, delete and prune the same dead job."""

import pytest

from storage.interleaving.prepared_jobs import FAIL, RETRY, YEAR, dead, running
from storage.interleaving.stepped_sessions import Sessions


def test_a_prune_steps_over_a_dead_job_that_is_being_resumed(sessions: Sessions) -> None:
    operator, leader = sessions.open_many(2)
    job = dead(operator)
    leader.pass_time(YEAR)
    operator.begin()
    assert operator.resume_dead(job) == "resumed"
    assert leader.prune() == 0
    operator.commit()
    assert leader.prune() == 0
    assert leader.state(job) == "ready"


def test_a_prune_takes_a_dead_job_whose_resume_was_rolled_back(sessions: Sessions) -> None:
    operator, leader = sessions.open_many(2)
    job = dead(operator)
    leader.pass_time(YEAR)
    operator.begin()
    assert operator.resume_dead(job) == "resumed"
    operator.rollback()
    assert leader.prune() == 1
    assert operator.resume_dead(job) == "unknown"


def test_a_resume_that_meets_a_prune_says_busy_and_then_unknown(sessions: Sessions) -> None:
    operator, leader = sessions.open_many(2)
    job = dead(operator)
    leader.pass_time(YEAR)
    leader.begin()
    assert leader.prune() == 1
    assert operator.resume_dead(job) == "busy"
    leader.commit()
    assert operator.resume_dead(job) == "unknown"
    assert operator.history(job) == []


def test_of_two_resumes_at_once_one_counts(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    job = dead(one)
    one.begin()
    assert one.resume_dead(job) == "resumed"
    assert two.resume_dead(job) == "busy"
    one.commit()
    assert two.resume_dead(job) == "unknown", "it is not dead any more"
    assert [row.job for row in two.claim(two.worker())] == [job]


def test_a_deletion_steps_over_a_dead_job_that_is_being_resumed(sessions: Sessions) -> None:
    operator, other = sessions.open_many(2)
    job = dead(operator)
    operator.begin()
    assert operator.resume_dead(job) == "resumed"
    assert other.delete_ended(job) == "busy"
    operator.commit()
    assert other.delete_ended(job) == "active"
    assert other.state(job) == "ready"


def test_a_resume_that_meets_a_deletion_says_busy_and_then_unknown(sessions: Sessions) -> None:
    operator, other = sessions.open_many(2)
    job = dead(operator)
    other.begin()
    assert other.delete_ended(job) == "deleted"
    assert operator.resume_dead(job) == "busy"
    other.commit()
    assert operator.resume_dead(job) == "unknown"


def test_a_prune_and_a_deletion_of_one_job_never_wait_for_each_other(sessions: Sessions) -> None:
    """One came from the ledger and the other from the dead: stopped half way they used to deadlock."""
    leader, operator, mark = sessions.open_many(3)
    worker, job, run = running(leader)
    leader.settles(worker, run, RETRY)
    leader.pass_time(RETRY.delay)
    leader.promote()
    [again] = leader.claim(worker)
    leader.settles(worker, again, FAIL)
    leader.pass_time(YEAR)
    with mark.holding("select from holdfast.job where id = %s for update", job):
        prune = sessions.start(leader, leader.prune).waits_for(mark)
        assert operator.delete_ended(job) == "busy"
    assert prune.answer() == 1
    assert operator.find(job) is None


def test_a_prune_does_not_wait_for_a_deletion_that_stays_open(sessions: Sessions) -> None:
    leader, operator = sessions.open_many(2)
    job = dead(operator)
    leader.pass_time(YEAR)
    operator.begin()
    assert operator.delete_ended(job) == "deleted"
    assert leader.prune() == 0
    operator.rollback()
    assert leader.prune() == 1


@pytest.mark.requirement("S2.13")
def test_a_deletion_takes_along_a_key_that_was_left_behind_and_never_waits_for_it(sessions: Sessions) -> None:
    session, caller = sessions.open(), sessions.open_as_caller()
    worker, job, run = running(session, unique_key="invoice 7")
    caller.begin()
    assert caller.unique("invoice 7") == (job, False)
    assert session.settles(worker, run, FAIL).outcome == "failed"
    assert session.delete_ended(job) == "busy"
    caller.rollback()
    assert session.delete_ended(job) == "deleted"
    assert session.key_holder("invoice 7") is None
