"""Which worker leads, and why two that both believe it do no harm: every chore is safe to run twice."""

from datetime import timedelta

import pytest

from holdfast.storage import chores, workers
from storage.interleaving.prepared_jobs import MINUTE, SECOND, blocking_ready
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA


@pytest.mark.requirement("S3.1")
def test_of_two_that_stand_for_the_first_election_at_once_one_leads(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    ann, bob = one.worker(), two.worker()
    one.begin()
    assert one.lead(ann) == 1
    second = sessions.start(two, lambda: two.lead(bob)).waits_for(one)
    one.commit()
    assert second.answer() is None
    assert one.lead(ann) == 1, "stays leader in the same term"


@pytest.mark.requirement("S3.1")
def test_the_second_leads_when_the_election_of_the_first_is_rolled_back(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    ann, bob = one.worker(), two.worker()
    one.begin()
    assert one.lead(ann) == 1
    second = sessions.start(two, lambda: two.lead(bob)).waits_for(one)
    one.rollback()
    assert second.answer() == 1
    assert one.lead(ann) is None


@pytest.mark.requirement("S3.1")
def test_a_frozen_leader_is_replaced_after_ten_seconds_on_the_databases_clock(sessions: Sessions) -> None:
    frozen, other = sessions.open_many(2)
    ann, bob = frozen.worker(), other.worker()
    assert frozen.lead(ann) == 1
    other.pass_time(workers.LEAD - timedelta(milliseconds=1))
    assert other.lead(bob) is None
    other.pass_time(timedelta(milliseconds=1))
    assert other.lead(bob) == 2
    frozen.pass_time(workers.LEAD)
    assert frozen.lead(ann) is None
    frozen.pass_time(workers.LEAD)
    assert frozen.lead(ann) == 3, "the term grows with every change"


@pytest.mark.requirement("S3.1")
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_successor_waits_for_a_renewal_under_way_and_leads_only_if_it_fails(
    sessions: Sessions, is_kept: bool
) -> None:
    one, two = sessions.open_many(2)
    ann, bob = one.worker(), two.worker()
    assert one.lead(ann) == 1
    for session in (one, two):
        session.pass_time(workers.LEAD)
    one.begin()
    assert one.lead(ann) == 1
    second = sessions.start(two, lambda: two.lead(bob)).waits_for(one)
    if is_kept:
        one.commit()
        assert second.answer() is None
    else:
        one.rollback()
        assert second.answer() == 2


def test_of_two_successors_of_a_frozen_leader_one_leads(sessions: Sessions) -> None:
    frozen, one, two = sessions.open_many(3)
    assert frozen.lead(frozen.worker()) == 1
    ann, bob = one.worker(), two.worker()
    for session in (one, two):
        session.pass_time(MINUTE)
    one.begin()
    assert one.lead(ann) == 2
    second = sessions.start(two, lambda: two.lead(bob)).waits_for(one)
    one.commit()
    assert second.answer() is None


def test_a_leader_that_steps_down_too_late_does_not_take_the_lead_from_its_successor(
    sessions: Sessions,
) -> None:
    one, two = sessions.open_many(2)
    ann, bob = one.worker(), two.worker()
    assert one.lead(ann) == 1
    two.pass_time(MINUTE)
    two.begin()
    assert two.lead(bob) == 2
    goodbye = sessions.start(one, lambda: one.run(workers.step_down(SCHEMA, worker=ann, now=one.now)))
    goodbye.waits_for(two)
    two.commit()
    assert goodbye.answer() == []
    assert two.lead(bob) == 2


@pytest.mark.requirement("S3.6")
def test_two_promotes_at_once_move_each_job_once(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    jobs = [one.enqueue(delay=SECOND) for _ in range(4)]
    for session in (one, two):
        session.pass_time(MINUTE)
    one.begin()
    assert one.promote(limit=2) == 2
    assert two.promote() == 2
    one.commit()
    assert two.promote() == 0
    assert [two.state(job) for job in jobs] == ["ready"] * 4


@pytest.mark.requirement("S3.6")
def test_a_promote_that_began_before_another_one_ended_moves_only_what_is_left(sessions: Sessions) -> None:
    one, two, mark = sessions.open_many(3)
    first, second, third = (one.enqueue(delay=SECOND * n) for n in (1, 2, 3))
    for session in (one, two):
        session.pass_time(MINUTE)
    with blocking_ready(mark, first):
        slow = sessions.start(one, one.promote).waits_for(mark)
        assert two.promote(limit=1) == 1
        assert two.state(second) == "ready"
    assert slow.answer() == 2
    assert [two.state(job) for job in (first, third)] == ["ready"] * 2


def test_a_job_reprioritised_while_a_promote_is_under_way_gets_its_new_priority(sessions: Sessions) -> None:
    """The promote began before: it must not put the job into ready with the priority it saw then."""
    leader, operator, mark = sessions.open_many(3)
    first, second = leader.enqueue(delay=SECOND), leader.enqueue(delay=SECOND * 2)
    leader.pass_time(MINUTE)
    with blocking_ready(mark, first):
        promote = sessions.start(leader, leader.promote).waits_for(mark)
        assert operator.reprioritise(first, 0) == "busy"
        assert operator.reprioritise(second, 0) == "changed"
    assert promote.answer() == 1
    assert leader.promote() == 1
    found = leader.find(second)
    assert found is not None
    assert (found.state, found.priority) == ("ready", 0)


def test_a_cancel_and_a_promote_of_one_job_have_one_winner(sessions: Sessions) -> None:
    leader, operator = sessions.open_many(2)
    job = leader.enqueue(delay=SECOND)
    leader.pass_time(MINUTE)
    leader.begin()
    assert leader.promote() == 1
    assert operator.cancel(job) == "busy"
    leader.rollback()
    operator.begin()
    assert operator.cancel(job) == "cancelled"
    assert leader.promote() == 0
    operator.commit()
    assert leader.promote() == 0
    assert operator.state(job) == "cancelled"


@pytest.mark.requirement("S3.6")
@pytest.mark.parametrize("is_scheduled", [True, False])
def test_two_expiries_at_once_end_each_job_once(sessions: Sessions, is_scheduled: bool) -> None:
    one, two = sessions.open_many(2)
    delay = SECOND if is_scheduled else None
    job = one.enqueue(delay=delay, deadline_in=MINUTE)
    for session in (one, two):
        session.pass_time(2 * MINUTE)
    one.begin()
    assert one.expire() == 1
    assert two.expire() == 0
    assert two.promote() == 0
    one.commit()
    assert two.expire() == 0
    assert [entry.outcome for entry in two.history(job)] == ["expired"]


@pytest.mark.requirement("S3.6")
def test_two_foldings_at_once_count_each_run_once(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    for _ in range(3):
        assert one.cancel(one.enqueue()) == "cancelled"
    one.begin()
    assert one.one(chores.fold(SCHEMA, limit=2)).folded == 2
    rest = sessions.start(two, lambda: two.one(chores.fold(SCHEMA))).waits_for(one)
    one.commit()
    assert rest.answer().folded == 1
    assert two.connection.execute("select sum(runs) from holdfast.counter").fetchone() == (3,)


@pytest.mark.requirement("S3.6")
def test_two_that_mark_at_once_mark_each_worker_once(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    worker = one.worker()
    for session in (one, two):
        session.pass_time(MINUTE)
    one.begin()
    assert one.mark_lost() == [worker]
    assert two.mark_lost() == []
    one.commit()
    assert two.mark_lost() == []
