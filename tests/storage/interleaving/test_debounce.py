"""A caller debounces a job while it is claimed, promoted, settled, or debounced by another."""

import json
from datetime import timedelta

import psycopg
import pytest

from holdfast.storage import jobs
from storage.interleaving.prepared_jobs import DONE, RETRY, SECOND
from storage.interleaving.session import Session
from storage.interleaving.stepped_sessions import Sessions
from support.engine import START

QUIET, LONGEST = 5 * SECOND, 8 * SECOND


def debounce(caller: Session, version: int, max_wait: timedelta | None = LONGEST) -> jobs.Enqueued:
    return caller.unique("index 7", args={"version": version}, debounce=QUIET, max_wait=max_wait)


def version_of(session: Session, job: int) -> int:
    found = session.find(job)
    assert found is not None
    return int(json.loads(found.args)["version"])


def due(*sessions: Session) -> None:
    """The debounce is over for all of them."""
    for session in sessions:
        session.now = START + QUIET


def test_an_enqueue_that_meets_a_claim_under_way_is_a_job_of_its_own(sessions: Sessions) -> None:
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    old = debounce(caller, 1).job
    due(caller, worker_side)
    worker_side.promote()
    worker = worker_side.worker()
    worker_side.begin()
    [run] = worker_side.claim(worker)
    new = debounce(caller, 2)
    worker_side.commit()
    assert (new.is_new, version_of(caller, old), version_of(caller, new.job)) == (True, 1, 2)
    assert worker_side.settles(worker, run, DONE).outcome == "succeeded"
    assert caller.key_holder("index 7") == new.job


def test_a_claim_steps_over_a_job_that_is_being_put_off(sessions: Sessions) -> None:
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    job = debounce(caller, 1, None).job
    due(caller, worker_side)
    worker_side.promote()
    worker = worker_side.worker()
    caller.begin()
    assert debounce(caller, 2, None) == (job, False)
    assert worker_side.claim(worker) == []
    caller.commit()
    assert worker_side.claim(worker) == [], "it waits again"
    worker_side.now = START + 2 * QUIET
    worker_side.promote()
    [run] = worker_side.claim(worker)
    assert (run.job, json.loads(run.args)["version"], run.newer) == (job, 2, None)


def test_an_enqueue_that_meets_a_promotion_takes_the_place_of_the_job_and_keeps_max_wait(
    sessions: Sessions,
) -> None:
    caller, leader, worker_side = sessions.open_as_caller(), sessions.open(), sessions.open()
    old = debounce(caller, 1).job
    due(caller, leader, worker_side)
    leader.begin()
    assert leader.promote() == 1
    new = debounce(caller, 2)
    leader.commit()
    assert new.is_new
    found = caller.find(new.job)
    assert found is not None
    assert found.run_at == START + LONGEST, "counted from the first enqueue of the burst"
    [run] = worker_side.claim(worker_side.worker())
    assert (run.job, run.newer) == (old, new.job), "its worker ends it without a call"


def test_no_settle_waits_for_a_caller_that_takes_the_key_over(sessions: Sessions) -> None:
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    debounce(caller, 1)
    due(caller, worker_side)
    worker_side.promote()
    worker = worker_side.worker()
    [run] = worker_side.claim(worker)
    caller.begin()
    new = debounce(caller, 2)
    assert worker_side.settles(worker, run, RETRY).outcome == "retried"
    caller.commit()
    worker_side.now = START + 10 * QUIET
    worker_side.promote()
    assert {row.job: row.newer for row in worker_side.claim(worker)} == {run.job: new.job, new.job: None}


def test_of_two_callers_the_one_that_commits_last_wins(sessions: Sessions) -> None:
    first, second = sessions.open_as_caller(), sessions.open_as_caller()
    job = debounce(first, 1).job
    first.begin()
    debounce(first, 2)
    other = sessions.start(second, lambda: debounce(second, 3)).waits_for(first)
    first.commit()
    assert other.answer() == (job, False)
    assert version_of(first, job) == 3


def test_a_rollback_lets_the_other_caller_replace_what_was_there(sessions: Sessions) -> None:
    first, second = sessions.open_as_caller(), sessions.open_as_caller()
    first.begin()
    gone = debounce(first, 1).job
    other = sessions.start(second, lambda: debounce(second, 2)).waits_for(first)
    first.rollback()
    answer = other.answer()
    assert answer.is_new
    assert answer.job != gone
    assert version_of(second, answer.job) == 2


@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_snapshot_from_before_is_refused_and_nothing_changes(
    sessions: Sessions, *, is_claimed: bool
) -> None:
    caller, worker_side = sessions.open_as_caller(), sessions.open()
    job = debounce(caller, 1).job
    due(caller, worker_side)
    worker_side.promote()
    caller.begin("repeatable read")
    assert caller.state(job) == "ready"
    if is_claimed:
        worker_side.claim(worker_side.worker())
    else:
        debounce(worker_side, 2)
    with pytest.raises(psycopg.errors.SerializationFailure):
        debounce(caller, 3)
    caller.rollback()
    assert debounce(caller, 4).is_new is is_claimed


def test_a_quiet_key_is_debounced_at_any_isolation_level(sessions: Sessions) -> None:
    caller = sessions.open_as_caller()
    job = debounce(caller, 1).job
    for version, isolation in enumerate(("repeatable read", "serializable"), start=2):
        caller.begin(isolation)
        assert debounce(caller, version) == (job, False)
        caller.commit()
        assert version_of(caller, job) == version
