"""Callers enqueue into a segment that the leader is about to truncate: no job is lost."""

from typing import NamedTuple

import psycopg
import pytest

from holdfast.domain.transition import SUCCESS
from holdfast.errors import Conflict
from holdfast.postgres.translate import translate
from holdfast.storage import runs
from storage.interleaving.prepared_jobs import blocking_ids
from storage.interleaving.session import Session
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA

STRICT = ["repeatable read", "serializable"]


class Sides(NamedTuple):
    """A caller, whose connection is not ours, the leader, and a worker with its own."""

    caller: Session
    leader: Session
    worker_side: Session
    worker: int


@pytest.fixture
def sides(sessions: Sessions) -> Sides:
    caller, leader, worker_side = sessions.open_as_caller(), sessions.open(), sessions.open()
    return Sides(caller, leader, worker_side, worker_side.worker())


def refused(leader: Session, segment: int) -> bool:
    """Whether a truncate is turned away at once, as a conflict that may be tried again."""
    try:
        leader.truncate(segment)
    except psycopg.Error as error:
        return isinstance(translate(error, "truncate"), Conflict)
    return False


def looking_back(caller: Session, isolation: str) -> None:
    """Take the snapshot, and with it the ring as it is now."""
    caller.begin(isolation)
    caller.execute("select from holdfast.ring")


def test_an_insert_in_flight_keeps_its_segment_from_being_truncated(sides: Sides) -> None:
    caller, leader, worker_side, worker = sides
    caller.begin()
    job = caller.enqueue()
    leader.turn_and_close()
    assert refused(leader, 0)
    caller.commit()
    assert leader.truncate(0) is False
    leader.reopen(0)
    assert [row.job for row in worker_side.claim(worker)] == [job]


def test_an_insert_that_is_rolled_back_leaves_its_segment_to_be_truncated(sessions: Sessions) -> None:
    caller, leader = sessions.open_as_caller(), sessions.open()
    caller.begin()
    job = caller.enqueue()
    leader.turn_and_close()
    assert refused(leader, 0)
    caller.rollback()
    assert leader.truncate(0) is True
    assert leader.find(job) is None


@pytest.mark.parametrize("isolation", STRICT)
def test_a_caller_with_an_old_snapshot_may_insert_into_a_closed_segment(sides: Sides, isolation: str) -> None:
    caller, leader, worker_side, worker = sides
    looking_back(caller, isolation)
    leader.turn_and_close()
    job = caller.enqueue()
    assert caller.segment(job) == 0
    assert refused(leader, 0)
    caller.commit()
    assert worker_side.claim(worker, closed=0) == [], "left out while it is closed"
    assert leader.truncate(0) is False
    leader.reopen(0)
    assert [row.job for row in worker_side.claim(worker)] == [job]


@pytest.mark.parametrize("isolation", STRICT)
def test_a_caller_with_an_old_snapshot_may_insert_into_a_segment_that_was_truncated_since(
    sides: Sides, isolation: str
) -> None:
    caller, leader, worker_side, worker = sides
    looking_back(caller, isolation)
    leader.turn_and_close()
    assert leader.truncate(0) is True
    job = caller.enqueue()
    caller.commit()
    assert worker_side.claim(worker, closed=0) == []
    assert worker_side.segment(job) == 0
    leader.reopen(0)
    assert [row.job for row in worker_side.claim(worker)] == [job]


def test_an_enqueue_stopped_between_its_snapshot_and_its_insert_survives_turn_and_truncate(
    sessions: Sessions, sides: Sides
) -> None:
    caller, leader, worker_side, worker = sides
    mark = sessions.open()
    with blocking_ids(mark):
        enqueue = sessions.start(caller, caller.enqueue).waits_for(mark)
        leader.turn_and_close()
        assert leader.truncate(0) is True
        leader.reopen(0)
    job = enqueue.answer()
    assert worker_side.segment(job) == 0
    assert [row.job for row in worker_side.claim(worker)] == [job]


def test_an_insert_waits_for_the_truncate_of_its_segment_and_is_there_afterwards(
    sessions: Sessions, sides: Sides
) -> None:
    caller, leader, worker_side, worker = sides
    looking_back(caller, "repeatable read")
    leader.turn_and_close()
    leader.begin()
    assert leader.truncate(0) is True
    enqueue = sessions.start(caller, caller.enqueue).waits_for(leader)
    leader.commit()
    leader.reopen(0)
    job = enqueue.answer()
    caller.commit()
    assert [row.job for row in worker_side.claim(worker)] == [job]


def test_a_turn_does_not_wait_for_a_caller_and_a_caller_does_not_wait_for_a_turn(sessions: Sessions) -> None:
    caller, leader = sessions.open_as_caller(), sessions.open()
    caller.begin()
    before = caller.enqueue()
    leader.begin()
    assert leader.turn(1)
    during = caller.enqueue()
    leader.commit()
    after = caller.enqueue()
    caller.commit()
    assert [caller.segment(job) for job in (before, during, after)] == [0, 0, 1]


def test_claims_do_not_wait_for_a_truncate_once_they_leave_the_segment_out(sessions: Sessions) -> None:
    leader, worker_side = sessions.open_many(2)
    worker = worker_side.worker()
    assert leader.turn(1)
    job = worker_side.enqueue()
    assert leader.close(0)
    leader.begin()
    assert leader.truncate(0) is True
    assert [row.job for row in worker_side.claim(worker, closed=0)] == [job]
    leader.commit()


def test_a_claim_with_an_old_list_waits_for_the_truncate_and_learns_of_the_new_list(
    sessions: Sessions,
) -> None:
    leader, worker_side = sessions.open_many(2)
    worker = worker_side.worker()
    assert leader.turn(1)
    job = worker_side.enqueue()
    assert leader.close(0)
    leader.begin()
    assert leader.truncate(0) is True
    claim = sessions.start(
        worker_side,
        lambda: worker_side.run(
            runs.claim(SCHEMA, worker=worker, queue="default", kinds=("mail",), limit=10, now=worker_side.now)
        ),
    ).waits_for(leader)
    leader.commit()
    assert [(row.job, row.closed) for row in claim.answer()] == [(job, 0)]


def test_a_claim_with_an_old_list_keeps_a_segment_from_being_truncated_and_takes_from_it(
    sessions: Sessions,
) -> None:
    leader, worker_side = sessions.open_many(2)
    worker, job = worker_side.worker(), worker_side.enqueue()
    leader.turn_and_close()
    worker_side.begin()
    [run] = worker_side.claim(worker, closed=None)
    assert (run.job, run.closed) == (job, 0)
    assert refused(leader, 0)
    worker_side.rollback()
    assert leader.truncate(0) is False
    leader.reopen(0)
    assert [row.job for row in worker_side.claim(worker)] == [job]


def test_a_claim_that_still_leaves_out_a_reopened_segment_misses_its_jobs_only_once(
    sessions: Sessions,
) -> None:
    leader, worker_side = sessions.open_many(2)
    worker = worker_side.worker()
    assert leader.turn(1)
    assert leader.close(2)
    assert leader.truncate(2) is True
    leader.reopen(2)
    assert leader.turn(2)
    job = worker_side.enqueue()
    [news] = worker_side.run(
        runs.claim(
            SCHEMA, worker=worker, queue="default", kinds=("mail",), limit=10, closed=2, now=worker_side.now
        )
    )
    assert (news.job, news.closed) == (None, None)
    assert [row.job for row in worker_side.claim(worker, closed=news.closed)] == [job]


@pytest.mark.parametrize("isolation", STRICT)
@pytest.mark.parametrize("is_settled", [True, False], ids=["succeeded", "running"])
def test_a_caller_with_an_old_snapshot_cancels_no_job_whose_segment_was_truncated(
    sides: Sides, isolation: str, *, is_settled: bool
) -> None:
    """To its snapshot the job is in no table: truncating is the one change that old snapshots do see."""
    caller, leader, worker_side, worker = sides
    job = leader.enqueue()
    looking_back(caller, isolation)
    [run] = worker_side.claim(worker)
    if is_settled:
        worker_side.settles(worker, run, SUCCESS)
    leader.turn_and_close()
    assert leader.truncate(0) is True
    assert caller.cancel(job) == "busy"
    caller.commit()
    assert leader.state(job) == ("succeeded" if is_settled else "running")
    assert leader.cancel(job) == ("final" if is_settled else "requested")
