"""Debounce: the last of a burst of enqueues with one key runs, once the key was quiet or max_wait is over;
nothing that came while an earlier one ran is lost.
"""

import json
from datetime import timedelta
from typing import Any

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy, args_json
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob, FailJob, ReleaseJob, RetryJob, SnoozeJob
from holdfast.domain.uniqueness import OnConflict
from holdfast.storage import chores, job_verbs, jobs, operators, ring, runs
from holdfast.storage.fsck import CHECKS
from support.engine import SCHEMA, START, Engine

SECOND = timedelta(seconds=1)
QUIET, LONGEST = 5 * SECOND, 12 * SECOND
DONE = CompleteJob(None, None)
RETRY = RetryJob(60 * SECOND, Failure("no"))


def debounced(n: int, key: str = "k", max_wait: timedelta | None = LONGEST, **more: Any) -> NewJob:
    return NewJob(
        Policy("mail"), args_json({"n": n}), unique_key=key, debounce=QUIET, max_wait=max_wait, **more
    )


def enqueue(engine: Engine, *new: NewJob, on_conflict: OnConflict = "existing") -> list[jobs.Enqueued]:
    return engine.hold(jobs.enqueue_many(SCHEMA, new, on_conflict=on_conflict, now=engine.now))


def at(engine: Engine, seconds: float) -> None:
    engine.now = START + seconds * SECOND


def promoted(engine: Engine) -> int:
    return engine.one(chores.promote(SCHEMA, now=engine.now)).moved


def seen(engine: Engine, job: int) -> tuple[str, int, float | None]:
    """Its state, its argument, and when it is to run, in seconds from the start."""
    found = engine.find(job)
    assert found is not None
    when = None if found.run_at is None else (found.run_at - START).total_seconds()
    return found.state, json.loads(found.args)["n"], when


def a_step_is_done(engine: Engine, flow: int) -> None:
    engine.connection.execute(
        "insert into holdfast.checkpoint (job, written_at, is_done, kind, name)"
        " values (%s, now(), true, 'step', 'a')",
        [flow],
    )


def claimed(engine: Engine, worker: int) -> runs.ClaimRow:
    [row] = engine.claim(worker)
    return row


def test_a_lone_enqueue_runs_after_the_debounce(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    assert first.is_new
    assert seen(engine, first.job) == ("scheduled", 1, 5)


def test_each_enqueue_of_a_burst_puts_the_job_off_and_gives_it_its_own_contents(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 3)
    policy = Policy("report", priority=1, tags=("last",))
    last = NewJob(policy, '{"n":2}', unique_key="k", debounce=QUIET, max_wait=LONGEST)
    assert enqueue(engine, last) == [(first.job, False)]
    assert seen(engine, first.job) == ("scheduled", 2, 8)
    found = engine.find(first.job)
    assert found is not None
    assert (found.kind, found.priority, found.tags) == ("report", 1, ["last"])


def test_no_burst_puts_a_job_off_for_longer_than_max_wait(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    for second in range(2, 12, 2):
        at(engine, second)
        assert enqueue(engine, debounced(second)) == [(first.job, False)]
    assert seen(engine, first.job) == ("scheduled", 10, 12)
    at(engine, 12)
    assert enqueue(engine, debounced(12)) == [(first.job, False)]
    assert seen(engine, first.job) == ("ready", 12, None)
    assert claimed(engine, engine.worker()).args == '{"n":12}'


def test_without_max_wait_a_burst_has_no_end(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1, max_wait=None))
    for second in range(4, 400, 4):
        at(engine, second)
        enqueue(engine, debounced(second, max_wait=None))
    assert seen(engine, first.job) == ("scheduled", 396, 401)


def test_a_job_that_is_due_and_not_begun_is_put_off_again(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 6)
    assert promoted(engine) == 1
    assert enqueue(engine, debounced(2)) == [(first.job, False)]
    assert seen(engine, first.job) == ("scheduled", 2, 11)


def test_a_job_that_was_put_off_for_long_enough_stays_ready_since_when_it_was(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 6)
    promoted(engine)
    at(engine, 30)
    assert enqueue(engine, debounced(2)) == [(first.job, False)]
    assert seen(engine, first.job) == ("ready", 2, None)
    [(ready_at,)] = engine.connection.execute("select ready_at from holdfast.ready")
    assert ready_at == START + 5 * SECOND


def test_a_job_that_is_parked_or_whose_queue_is_paused_is_replaced_too(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 6)
    promoted(engine)
    engine.one(ring.park(SCHEMA, segment=0, now=engine.now))
    assert seen(engine, first.job)[0] == "ready"
    engine.run(operators.pause(SCHEMA, queue="default"))
    at(engine, 30)
    assert enqueue(engine, debounced(2)) == [(first.job, False)]
    assert seen(engine, first.job) == ("ready", 2, None)


def test_while_it_runs_a_new_job_takes_over_the_key(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 5)
    promoted(engine)
    worker = engine.worker()
    run = claimed(engine, worker)
    [second] = enqueue(engine, debounced(2))
    assert (second.is_new, second.job > first.job) == (True, True)
    assert seen(engine, second.job) == ("scheduled", 2, 10)
    at(engine, 7)
    assert enqueue(engine, debounced(3)) == [(second.job, False)]
    assert engine.settle(worker, run, DONE).outcome == "succeeded"
    assert enqueue(engine, debounced(4)) == [(second.job, False)], "the end of the first leaves the key alone"
    at(engine, 12)
    promoted(engine)
    assert claimed(engine, worker).args == '{"n":4}'


@pytest.mark.parametrize("transition", [RETRY, SnoozeJob(60 * SECOND), ReleaseJob()])
def test_what_was_superseded_while_it_ran_is_told_so_when_it_would_run_again(
    engine: Engine, transition: Any
) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 5)
    promoted(engine)
    worker = engine.worker()
    run = claimed(engine, worker)
    [second] = enqueue(engine, debounced(2))
    engine.settle(worker, run, transition)
    at(engine, 100)
    promoted(engine)
    assert {row.job: row.newer for row in engine.claim(worker)} == {first.job: second.job, second.job: None}


def test_a_unique_job_that_nothing_superseded_is_told_nothing(engine: Engine) -> None:
    enqueue(engine, NewJob(Policy("mail"), unique_key="k"))
    assert claimed(engine, engine.worker()).newer is None


def test_a_job_that_waits_for_a_retry_gets_the_new_contents_and_a_new_burst(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 5)
    promoted(engine)
    worker = engine.worker()
    engine.run(runs.save(SCHEMA, [runs.Saving(worker, first.job, claimed(engine, worker).run, "1")]))
    [(run,)] = engine.connection.execute("select run from holdfast.lease")
    engine.one(
        runs.settle(
            SCHEMA,
            [runs.Settlement(worker, first.job, run, RETRY)],
            retention=Retention(),
            now=engine.now,
        )
    )
    at(engine, 30)
    assert enqueue(engine, debounced(2)) == [(first.job, False)]
    assert seen(engine, first.job) == ("scheduled", 2, 35), "not at once, as its first burst is long over"
    at(engine, 35)
    promoted(engine)
    again = claimed(engine, worker)
    assert (again.attempt, again.state) == (1, None), "as new, without what the other contents saved"


@pytest.mark.parametrize("transition", [DONE, FailJob(Failure("no"))])
def test_after_its_end_a_new_burst_begins(engine: Engine, transition: Any) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 5)
    promoted(engine)
    worker = engine.worker()
    engine.settle(worker, claimed(engine, worker), transition)
    at(engine, 60)
    [second] = enqueue(engine, debounced(2))
    assert (second.is_new, second.job != first.job) == (True, True)
    assert seen(engine, second.job) == ("scheduled", 2, 65)


def test_a_cancelled_job_gives_way_to_a_new_one(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    engine.hold(operators.cancel(SCHEMA, [first.job], now=engine.now, retention=Retention()))
    [second] = enqueue(engine, debounced(2))
    assert second.is_new


@pytest.mark.parametrize("place", ["waiting", "scheduled", "ready"])
def test_a_flow_that_has_begun_goes_on_and_a_new_one_takes_over_the_key(engine: Engine, place: str) -> None:
    [first] = enqueue(engine, debounced(1))
    a_step_is_done(engine, first.job)
    at(engine, 5)
    if place == "waiting":
        engine.connection.execute("delete from holdfast.scheduled")
        engine.connection.execute(
            "insert into holdfast.waiting (job, since) values (%s, %s)", [first.job, START]
        )
        engine.connection.execute(
            "insert into holdfast.wait (job, is_eager, name) values (%s, false, 'a')", [first.job]
        )
    elif place == "ready":
        promoted(engine)
    [second] = enqueue(engine, debounced(2))
    assert second.is_new
    assert (seen(engine, first.job)[:2], seen(engine, second.job)) == ((place, 1), ("scheduled", 2, 10))
    if place == "ready":
        assert claimed(engine, engine.worker()).newer is None, "its steps are not left half done"


def test_a_replace_leaves_a_flow_that_has_begun_alone(engine: Engine) -> None:
    [first] = enqueue(engine, NewJob(Policy("mail"), '{"n":1}', unique_key="k"))
    a_step_is_done(engine, first.job)
    new = NewJob(Policy("mail"), '{"n":2}', unique_key="k")
    assert enqueue(engine, new, on_conflict="replace") == [(first.job, False)]
    assert seen(engine, first.job)[:2] == ("ready", 1)


def test_of_many_in_one_call_the_last_of_each_key_counts(engine: Engine) -> None:
    rows = enqueue(engine, *(debounced(n, key="ab"[n % 2]) for n in range(6)))
    assert [row.is_new for row in rows] == [True, True, False, False, False, False]
    assert [row.job for row in rows] == [rows[0].job, rows[1].job] * 3
    assert [seen(engine, row.job)[1] for row in rows[:2]] == [4, 5]


def test_of_many_in_one_call_one_job_takes_the_key_of_the_one_that_runs(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 5)
    promoted(engine)
    claimed(engine, engine.worker())
    rows = enqueue(engine, debounced(2), debounced(3), debounced(4))
    assert [row.is_new for row in rows] == [True, False, False]
    assert {row.job for row in rows} == {rows[0].job}
    assert rows[0].job != first.job
    assert seen(engine, rows[0].job)[1] == 4


def test_a_call_may_hold_debounced_jobs_among_others(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    rows = enqueue(
        engine,
        NewJob(Policy("mail")),
        debounced(2),
        NewJob(Policy("mail"), unique_key="other"),
        on_conflict="raise",
    )
    assert [row.is_new for row in rows] == [True, False, True]
    assert seen(engine, first.job)[1] == 2


def test_a_job_that_was_not_debounced_is_put_off_by_one_that_is(engine: Engine) -> None:
    [first] = enqueue(engine, NewJob(Policy("mail"), '{"n":1}', unique_key="k", delay=3600 * SECOND))
    at(engine, 100)
    assert enqueue(engine, debounced(2)) == [(first.job, False)]
    assert seen(engine, first.job) == ("scheduled", 2, 105)


def test_what_is_rolled_back_changes_neither_contents_nor_time(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 3)
    with engine.connection.transaction(force_rollback=True):
        enqueue(engine, debounced(2))
        assert seen(engine, first.job) == ("scheduled", 2, 8)
    assert seen(engine, first.job) == ("scheduled", 1, 5)


def test_a_moved_job_keeps_its_key_and_is_put_off_in_its_new_queue(engine: Engine) -> None:
    [first] = enqueue(engine, debounced(1))
    assert engine.hold(job_verbs.move(SCHEMA, [first.job], queue="slow", now=engine.now)) == {
        first.job: "moved"
    }
    at(engine, 3)
    slow = NewJob(Policy("mail", queue="slow"), '{"n":2}', unique_key="k", debounce=QUIET)
    assert enqueue(engine, slow) == [(first.job, False)]
    assert seen(engine, first.job) == ("scheduled", 2, 8)


@pytest.mark.parametrize("is_started", [False, True])
def test_fsck_takes_no_superseded_job_for_damaged(engine: Engine, *, is_started: bool) -> None:
    [first] = enqueue(engine, debounced(1))
    at(engine, 5)
    promoted(engine)
    worker = engine.worker()
    run = claimed(engine, worker)
    enqueue(engine, debounced(2))
    if not is_started:
        engine.settle(worker, run, RETRY)
    for check in CHECKS:
        if check.of in ("jobs", "unique keys"):
            sights = engine.run(check.sights(SCHEMA, check.start, limit=100))
            assert [sight.damage for sight in sights] == [None], first
