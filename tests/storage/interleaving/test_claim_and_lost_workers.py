"""A worker claims, renews or retires while it is being marked lost."""

import pytest

from storage.interleaving.prepared_jobs import DONE, MINUTE, lost, running
from storage.interleaving.stepped_sessions import Sessions


@pytest.mark.requirement("S1.28")
def test_a_claim_waits_for_the_marking_of_its_worker_and_then_gets_nothing(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    leader.begin()
    lost(leader, worker)
    claim = sessions.start(worker_side, lambda: worker_side.claim(worker)).waits_for(leader)
    leader.commit()
    assert claim.answer() == []
    assert leader.state(job) == "ready"


def test_a_claim_goes_on_when_the_marking_of_its_worker_is_rolled_back(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    leader.begin()
    lost(leader, worker)
    claim = sessions.start(worker_side, lambda: worker_side.claim(worker)).waits_for(leader)
    leader.rollback()
    assert [row.job for row in claim.answer()] == [job]


@pytest.mark.requirement("S0.24")
def test_marking_steps_over_a_worker_that_is_claiming_and_rescues_the_claim_afterwards(
    sessions: Sessions,
) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    worker_side.begin()
    [run] = worker_side.claim(worker)
    leader.pass_time(MINUTE)
    assert leader.mark_lost() == []
    assert leader.rescue() == []
    worker_side.commit()
    assert leader.mark_lost() == [worker]
    assert [(row.job, row.outcome) for row in leader.rescue()] == [(job, "retried")]
    assert worker_side.settles(worker, run, DONE).answer == "lost"
    assert leader.state(job) == "scheduled"


@pytest.mark.requirement("S1.13", "S0.24")
def test_a_renewal_waits_for_the_marking_of_its_worker_and_is_refused(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side)
    leader.begin()
    lost(leader, worker)
    renewal = sessions.start(worker_side, lambda: worker_side.renew(worker, run.run)).waits_for(leader)
    leader.commit()
    assert renewal.answer().is_alive is False
    assert [row.job for row in leader.rescue()] == [job]
    assert worker_side.renew(worker, run.run).missing == [run.run]


def test_a_renewal_counts_when_the_marking_of_its_worker_is_rolled_back(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side)
    leader.begin()
    lost(leader, worker)
    renewal = sessions.start(worker_side, lambda: worker_side.renew(worker, run.run)).waits_for(leader)
    leader.rollback()
    assert renewal.answer().is_alive is True
    assert worker_side.settles(worker, run, DONE).answer == "settled"
    assert leader.state(job) == "succeeded"


def test_marking_steps_over_a_worker_that_is_renewing_and_finds_it_alive_afterwards(
    sessions: Sessions,
) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side)
    for session in (worker_side, leader):
        session.pass_time(MINUTE)
    worker_side.begin()
    assert worker_side.renew(worker, run.run).is_alive is True
    assert leader.mark_lost() == []
    worker_side.commit()
    assert leader.mark_lost() == []
    assert leader.rescue() == []
    assert leader.state(job) == "running"


def test_a_renewal_does_not_wait_for_a_rescue_of_the_runs_that_it_reports(sessions: Sessions) -> None:
    """It was refused before: what the rescue does to the leases does not concern the worker's row."""
    worker_side, leader = sessions.open_many(2)
    worker, _, run = running(worker_side)
    lost(leader, worker)
    leader.begin()
    assert len(leader.rescue()) == 1
    assert worker_side.renew(worker, run.run)[:5] == (False, [], [], [], [])
    leader.commit()
    assert worker_side.renew(worker, run.run)[:5] == (False, [run.run], [], [], [])


def test_a_worker_that_retires_during_its_last_claim_leaves_the_claim_to_rescue(sessions: Sessions) -> None:
    worker_side, goodbye = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    worker_side.begin()
    worker_side.claim(worker)
    retirement = sessions.start(goodbye, lambda: goodbye.retire(worker)).waits_for(worker_side)
    worker_side.commit()
    assert retirement.answer() is False
    goodbye.pass_time(MINUTE)
    assert goodbye.mark_lost() == [worker]
    assert [(row.job, row.outcome) for row in goodbye.rescue()] == [(job, "retried")]


def test_a_worker_that_retires_during_a_claim_that_is_rolled_back_is_gone(sessions: Sessions) -> None:
    worker_side, goodbye = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    worker_side.begin()
    worker_side.claim(worker)
    retirement = sessions.start(goodbye, lambda: goodbye.retire(worker)).waits_for(worker_side)
    worker_side.rollback()
    assert retirement.answer() is True
    assert goodbye.state(job) == "ready"


def test_a_claim_that_waited_for_its_worker_to_retire_gets_nothing(sessions: Sessions) -> None:
    worker_side, goodbye = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    goodbye.begin()
    assert goodbye.retire(worker) is True
    claim = sessions.start(worker_side, lambda: worker_side.claim(worker)).waits_for(goodbye)
    goodbye.commit()
    assert claim.answer() == []
    assert worker_side.renew(worker).is_alive is False
    assert goodbye.state(job) == "ready"
