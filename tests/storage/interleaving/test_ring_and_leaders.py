"""Two leaders turn, close, truncate, gather and park at once, while workers claim and operators cancel."""

from collections.abc import Callable

import psycopg
import pytest

from holdfast.domain.job import Policy
from holdfast.postgres.statement import Statement
from holdfast.storage import operators, ring
from storage.interleaving.prepared_jobs import MINUTE
from storage.interleaving.session import Session
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA


def version(session: Session) -> int:
    return session.one(ring.look_at_ring(SCHEMA, now=session.now)).version


def one_before_a_turn(
    sessions: Sessions, first: Callable[[Session, int], Statement[int]]
) -> tuple[Session, Session]:
    """Both leaders have seen one version of the ring. `first` counts, and a turn to segment 2 that waits for
    it does not.
    """
    one, two = sessions.open_many(2)
    seen = version(one)
    one.begin()
    assert len(one.run(first(one, seen))) == 1
    late = sessions.start(two, lambda: two.run(ring.turn(SCHEMA, to=2, version=seen, now=two.now)))
    late.waits_for(one)
    one.commit()
    assert late.answer() == []
    return one, two


@pytest.mark.requirement("S3.6")
def test_of_two_turns_at_once_one_counts(sessions: Sessions) -> None:
    _, two = one_before_a_turn(sessions, lambda one, seen: ring.turn(SCHEMA, to=1, version=seen, now=one.now))
    assert two.one(ring.look_at_ring(SCHEMA)).current == 1


@pytest.mark.requirement("S3.6")
def test_of_a_turn_and_a_close_of_one_segment_one_counts(sessions: Sessions) -> None:
    """Closed and current at once would hide new jobs from the claims."""
    one, two = one_before_a_turn(
        sessions, lambda one, seen: ring.close(SCHEMA, segment=2, version=seen, now=one.now)
    )
    assert two.turn(2) is False
    one.reopen(2)
    assert two.turn(2) is True
    assert one.close(2) is False


@pytest.mark.requirement("S3.6")
def test_of_two_truncates_at_once_one_is_turned_away(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    one.turn_and_close()
    one.begin()
    assert one.truncate(0) is True
    with pytest.raises(psycopg.errors.LockNotAvailable):
        two.truncate(0)
    one.commit()
    assert two.truncate(0) is True


def test_a_turn_waits_for_a_truncate_and_does_not_take_its_segment(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    one.turn_and_close()
    seen = version(one)
    one.begin()
    assert one.truncate(0) is True
    assert two.run(ring.turn(SCHEMA, to=0, version=seen, now=two.now)) == []
    turn = sessions.start(two, lambda: two.run(ring.turn(SCHEMA, to=2, version=seen, now=two.now)))
    turn.waits_for(one)
    one.commit()
    assert len(turn.answer()) == 1


def test_a_segment_that_a_late_leader_reopened_is_not_truncated(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    one.turn_and_close()
    two.reopen(0)
    assert one.truncate(0) is False


def test_a_leader_that_comes_back_after_its_closing_ran_out_truncates_nothing(sessions: Sessions) -> None:
    frozen, other = sessions.open_many(2)
    job = frozen.enqueue()
    frozen.turn_and_close()
    other.pass_time(MINUTE)
    assert other.close(2), "the frozen leader's closing has run out"
    assert frozen.truncate(0) is False
    assert [row.job for row in other.claim(other.worker(), closed=2)] == [job]


@pytest.mark.requirement("S3.6")
def test_two_gatherings_at_once_move_each_job_once(sessions: Sessions) -> None:
    one, two = sessions.open_many(2)
    jobs = [one.enqueue() for _ in range(3)]
    assert one.turn(1)
    one.begin()
    assert one.gather(0) == 3
    assert two.gather(0) == 0
    one.commit()
    assert two.gather(0) == 0
    assert [two.segment(job) for job in jobs] == [1, 1, 1]


def test_a_gathering_steps_over_a_claim_and_a_claim_over_a_gathering(sessions: Sessions) -> None:
    leader, worker_side = sessions.open_many(2)
    worker = worker_side.worker()
    first, second = worker_side.enqueue(), worker_side.enqueue()
    assert leader.turn(1)
    worker_side.begin()
    assert [row.job for row in worker_side.claim(worker, limit=1)] == [first]
    leader.begin()
    assert leader.gather(0) == 1
    assert worker_side.claim(worker) == []
    worker_side.commit()
    leader.commit()
    assert [row.job for row in worker_side.claim(worker)] == [second]
    assert leader.gather(0) == 0


def test_a_claim_that_began_before_a_gathering_leaves_the_moved_job_to_the_next(sessions: Sessions) -> None:
    leader, worker_side, mark = sessions.open_many(3)
    worker, job = worker_side.worker(), worker_side.enqueue()
    assert leader.turn(1)
    with mark.holding("select from holdfast.worker where id = %s for update", worker):
        claim = sessions.start(worker_side, lambda: worker_side.claim(worker)).waits_for(mark)
        assert leader.gather(0) == 1
    assert claim.answer() == []
    assert [row.job for row in worker_side.claim(worker)] == [job]


def paused(sessions: Sessions) -> tuple[Session, Session, int, int]:
    """A queue on hold with one job: the leader, the worker's side, its worker and the job."""
    leader, worker_side = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    leader.run(operators.pause(SCHEMA, queue="default", now=leader.now))
    return leader, worker_side, worker, job


def resume(session: Session) -> None:
    session.run(operators.resume(SCHEMA, queue="default", now=session.now))


def test_a_parking_steps_over_a_claim_and_a_claim_over_a_parking(sessions: Sessions) -> None:
    leader, worker_side, worker, job = paused(sessions)
    resume(worker_side)
    worker_side.begin()
    assert len(worker_side.claim(worker)) == 1
    leader.run(operators.pause(SCHEMA, queue="default", now=leader.now))
    assert leader.park(0) == 0
    worker_side.rollback()
    leader.begin()
    assert leader.park(0) == 1
    resume(worker_side)
    assert worker_side.claim(worker) == []
    leader.commit()
    assert worker_side.claim(worker) == [], "parked until the leader brings it back"
    assert leader.unpark() == 1
    assert [row.job for row in worker_side.claim(worker)] == [job]


@pytest.mark.requirement("S3.6")
def test_two_leaders_parking_and_unparking_at_once_move_each_job_once(sessions: Sessions) -> None:
    leader, other, _, job = paused(sessions)
    leader.begin()
    assert leader.park(0) == 1
    assert other.park(0) == 0
    leader.commit()
    resume(other)
    leader.begin()
    assert leader.unpark() == 1
    assert other.unpark() == 0
    leader.commit()
    assert other.unpark() == 0
    assert other.segment(job) == 0


def test_a_job_parked_for_a_kind_that_a_worker_brings_at_that_moment_is_brought_back(
    sessions: Sessions,
) -> None:
    leader, worker_side = sessions.open_many(2)
    leader.worker(kinds=("other",))
    job = worker_side.enqueue(Policy("mail"))
    leader.begin()
    assert leader.park(0) == 1
    worker = worker_side.worker()
    assert worker_side.claim(worker) == []
    leader.commit()
    assert leader.unpark() == 1
    assert [row.job for row in worker_side.claim(worker)] == [job]


@pytest.mark.parametrize("is_parking", [True, False])
def test_a_cancel_that_meets_a_move_to_or_from_the_parked_says_busy_and_then_ends_the_job(
    sessions: Sessions, is_parking: bool
) -> None:
    leader, operator, _, job = paused(sessions)
    if not is_parking:
        assert leader.park(0) == 1
        resume(leader)
    leader.begin()
    assert (leader.park(0) if is_parking else leader.unpark()) == 1
    assert operator.cancel(job) == "busy"
    assert operator.reprioritise(job, 0) == "busy"
    leader.commit()
    assert operator.cancel(job) == "cancelled"


@pytest.mark.parametrize("is_parking", [True, False])
def test_a_move_to_or_from_the_parked_steps_over_a_job_that_is_being_cancelled(
    sessions: Sessions, is_parking: bool
) -> None:
    leader, operator, _, job = paused(sessions)
    if not is_parking:
        assert leader.park(0) == 1
        resume(leader)
    operator.begin()
    assert operator.cancel(job) == "cancelled"
    assert (leader.park(0) if is_parking else leader.unpark()) == 0
    operator.commit()
    assert (leader.park(0) if is_parking else leader.unpark()) == 0
    assert leader.state(job) == "cancelled"
