"""A run is settled by its worker while the leader takes it away, or while the same settle is sent again."""

import pytest

from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import Transition
from holdfast.storage import chores, runs
from storage.interleaving.prepared_jobs import DONE, MINUTE, RELEASE, RETRY, YEAR, lost, running
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA


@pytest.mark.requirement("S3.24", "S1.27")
def test_a_rescue_steps_over_a_run_that_is_being_settled(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side)
    lost(leader, worker)
    worker_side.begin()
    assert worker_side.settles(worker, run, DONE) == (job, run.run, "settled", "succeeded")
    assert leader.rescue() == []
    worker_side.commit()
    assert leader.rescue() == []
    assert leader.state(job) == "succeeded"


@pytest.mark.requirement("S3.24")
def test_a_rescue_takes_a_run_whose_settle_was_rolled_back(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side)
    lost(leader, worker)
    worker_side.begin()
    worker_side.settles(worker, run, DONE)
    assert leader.rescue() == []
    worker_side.rollback()
    assert leader.rescue() == [(job, run.run, "settled", "retried")]
    assert worker_side.settles(worker, run, DONE).answer == "lost"


@pytest.mark.requirement("S0.24", "S1.27", "S1.28", "S4.21")
@pytest.mark.parametrize("late", [DONE, RETRY, RELEASE])
def test_a_settle_that_waited_for_a_rescue_is_told_that_its_run_is_lost(
    sessions: Sessions, late: Transition
) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side)
    lost(leader, worker)
    leader.begin()
    assert leader.rescue() == [(job, run.run, "settled", "retried")]
    settle = sessions.start(worker_side, lambda: worker_side.settles(worker, run, late)).waits_for(leader)
    leader.commit()
    assert settle.answer() == (job, run.run, "lost", None)
    assert [entry.outcome for entry in leader.history(job)] == ["retried"]
    assert leader.state(job) == "scheduled"


@pytest.mark.requirement("S1.27")
def test_a_settle_that_waited_for_a_rescue_that_is_rolled_back_is_taken(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side)
    lost(leader, worker)
    leader.begin()
    leader.rescue()
    settle = sessions.start(worker_side, lambda: worker_side.settles(worker, run, DONE)).waits_for(leader)
    leader.rollback()
    assert settle.answer() == (job, run.run, "settled", "succeeded")
    assert leader.rescue() == []


@pytest.mark.requirement("S0.24", "S1.29", "S4.21")
def test_a_worker_that_claims_its_lost_job_again_is_fenced_by_the_run(sessions: Sessions) -> None:
    """The old coroutine still runs in the same process: the same worker and the same job are not enough."""
    worker_side, leader = sessions.open_many(2)
    worker, job, old = running(worker_side, Policy("mail", timeout=MINUTE))
    for session in (worker_side, leader):
        session.pass_time(2 * MINUTE)
    assert [row.job for row in leader.rescue_overdue()] == [job]
    worker_side.pass_time(MINUTE)
    assert worker_side.promote() == 1
    [new] = worker_side.claim(worker)
    worker_side.begin()
    assert worker_side.settles(worker, new, DONE).answer == "settled"
    late = sessions.start(leader, lambda: leader.settles(worker, old, RETRY))
    assert late.answer().answer == "lost"
    worker_side.commit()
    assert leader.settles(worker, old, RETRY).answer == "lost"
    assert leader.state(job) == "succeeded"


@pytest.mark.requirement("S0.6")
@pytest.mark.parametrize("again", [DONE, RELEASE])
def test_a_settle_sent_again_while_the_first_is_at_work_is_told_already(
    sessions: Sessions, again: Transition
) -> None:
    """The connection was cut, the first sending was not: the second waits for it and learns the truth."""
    first, second = sessions.open_many(2)
    worker, job, run = running(first)
    first.begin()
    assert first.settles(worker, run, DONE).answer == "settled"
    settle = sessions.start(second, lambda: second.settles(worker, run, again)).waits_for(first)
    first.commit()
    assert settle.answer() == (job, run.run, "already", None)
    assert [entry.outcome for entry in second.history(job)] == ["succeeded"]


def test_a_settle_sent_again_is_taken_when_the_first_is_rolled_back(sessions: Sessions) -> None:
    first, second = sessions.open_many(2)
    worker, job, run = running(first)
    first.begin()
    first.settles(worker, run, DONE)
    settle = sessions.start(second, lambda: second.settles(worker, run, DONE)).waits_for(first)
    first.rollback()
    assert settle.answer() == (job, run.run, "settled", "succeeded")


def test_a_batch_that_waited_for_one_run_settles_the_others(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker = worker_side.worker()
    for _ in range(3):
        worker_side.enqueue()
    claimed = worker_side.claim(worker)
    batch = [runs.Settlement(worker, row.job or 0, row.run, DONE) for row in claimed]
    leader.begin()
    leader.settle(worker, claimed[1], RETRY)
    settle = sessions.start(
        worker_side,
        lambda: worker_side.hold(
            runs.settle_surely(SCHEMA, batch, now=worker_side.now, retention=Retention())
        ),
    ).waits_for(leader)
    leader.commit()
    answers = {answer.run: answer.answer for answer in settle.answer()}
    assert [answers[row.run] for row in claimed] == ["settled", "already", "settled"]


@pytest.mark.requirement("S3.24", "S3.6")
def test_two_rescues_at_once_take_each_run_away_once(sessions: Sessions) -> None:
    worker_side, one, two = sessions.open_many(3)
    worker = worker_side.worker()
    jobs = [worker_side.enqueue() for _ in range(4)]
    worker_side.claim(worker)
    lost(one, worker)
    two.pass_time(MINUTE)
    one.begin()
    taken = [row.job for row in one.rescue(limit=2)]
    rest = [row.job for row in two.rescue()]
    one.commit()
    assert sorted(taken + rest) == jobs
    assert two.rescue() == []
    assert [len(two.history(job)) for job in jobs] == [1, 1, 1, 1]


def test_a_rescue_of_an_overdue_run_steps_over_its_settle(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side, Policy("mail", timeout=MINUTE))
    leader.pass_time(2 * MINUTE)
    worker_side.begin()
    worker_side.settles(worker, run, DONE)
    assert leader.rescue_overdue() == []
    worker_side.commit()
    assert leader.rescue_overdue() == []
    assert leader.state(job) == "succeeded"


@pytest.mark.requirement("S0.24", "S1.27")
def test_a_state_that_waited_for_a_rescue_is_not_saved(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side)
    saving = runs.Saving(worker, job, run.run, state='{"page": 2}')
    lost(leader, worker)
    leader.begin()
    leader.rescue()
    save = sessions.start(worker_side, lambda: worker_side.run(runs.save(SCHEMA, [saving]))).waits_for(leader)
    leader.commit()
    assert save.answer() == []
    leader.pass_time(MINUTE)
    assert leader.promote() == 1
    other = leader.worker()
    assert [row.state for row in leader.claim(other)] == [None]


def test_a_rescue_steps_over_a_run_that_is_saving_its_state(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, job, run = running(worker_side)
    lost(leader, worker)
    worker_side.begin()
    saving = runs.Saving(worker, job, run.run, state='{"page": 2}')
    assert worker_side.run(runs.save(SCHEMA, [saving])) == [run.run]
    assert leader.rescue() == []
    worker_side.commit()
    assert [row.job for row in leader.rescue()] == [job]
    leader.pass_time(MINUTE)
    leader.promote()
    assert [row.state for row in leader.claim(leader.worker())] == ['{"page": 2}']


def test_a_settle_that_waited_for_a_saving_of_its_own_run_leaves_nothing_behind(sessions: Sessions) -> None:
    """With keep=0 the saved state goes at the end; one that the settle could not see goes with the ledger."""
    worker_side, settler = sessions.open_many(2)
    worker, job, run = running(worker_side, Policy("mail", keep=YEAR * 0))
    worker_side.begin()
    worker_side.run(runs.save(SCHEMA, [runs.Saving(worker, job, run.run, state="{}")]))
    settle = sessions.start(settler, lambda: settler.settles(worker, run, DONE)).waits_for(worker_side)
    worker_side.commit()
    assert settle.answer().outcome == "succeeded"
    assert settler.one(chores.prune(SCHEMA, now=settler.now)).moved == 1
    assert settler.connection.execute("select count(*) from holdfast.saved").fetchone() == (0,)
