"""Uniqueness: a key is held while its job is active, and no change of state ever fails on it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy, args_json
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CancelJob, CompleteJob, FailJob, ReleaseJob, RetryJob, SnoozeJob
from holdfast.domain.uniqueness import OnConflict
from holdfast.errors import DuplicateJob
from holdfast.storage import chores, jobs, operators
from support.engine import SCHEMA, START, Engine

A_MINUTE = timedelta(minutes=1)
NO = Failure("no")


def keyed(
    key: str | None = "k", queue: str = "default", args: dict[str, object] | None = None, **when: Any
) -> NewJob:
    return NewJob(Policy("mail", queue=queue), args_json(args or {}), unique_key=key, **when)


def enqueue(engine: Engine, *new: NewJob, on_conflict: OnConflict = "existing") -> list[jobs.Enqueued]:
    return engine.hold(jobs.enqueue_many(SCHEMA, new, on_conflict=on_conflict, now=engine.now))


def everything(engine: Engine) -> list[Any]:
    """All that is known of the jobs, to the last column."""
    return [
        engine.connection.execute(f"select * from holdfast.{table} order by 1").fetchall()
        for table in ("job", "ready", "scheduled", "lease", "ledger")
    ]


@pytest.mark.requirement("S2.11", "S4.4", "S0.6")
def test_a_second_job_with_a_held_key_is_the_first_one_and_changes_nothing_of_it(engine: Engine) -> None:
    [first] = enqueue(engine, keyed(args={"n": 1}))
    before = everything(engine)
    [second] = enqueue(engine, keyed(args={"n": 2}, delay=A_MINUTE))
    assert (first.is_new, second) == (True, jobs.Enqueued(first.job, False))
    assert everything(engine) == before


@pytest.mark.requirement("S2.11")
def test_on_conflict_raise_is_an_error_that_names_the_existing_job(engine: Engine) -> None:
    [first] = enqueue(engine, keyed())
    before = everything(engine)
    with pytest.raises(
        DuplicateJob, match=f'job {first.job} holds the unique key "k" in queue "default"'
    ) as told:
        enqueue(engine, keyed("other"), keyed(), on_conflict="raise")
    assert (told.value.key, told.value.queue, told.value.job) == ("k", "default", first.job)
    assert everything(engine) == before


@pytest.mark.requirement("S2.10", "S4.5")
def test_only_jobs_that_ask_are_unique_and_only_within_their_queue(engine: Engine) -> None:
    answers = enqueue(engine, keyed(None), keyed(None), keyed("k"), keyed("k", "other"), keyed("l"))
    assert all(row.is_new for row in answers)
    assert len({row.job for row in answers}) == 5


def test_the_same_key_twice_in_one_call_gives_the_first(engine: Engine) -> None:
    one, two, three = enqueue(engine, keyed(args={"n": 1}), keyed(args={"n": 2}), keyed("other"))
    assert (one.is_new, two, three.is_new) == (True, jobs.Enqueued(one.job, False), True)
    found = engine.find(one.job)
    assert found is not None
    assert found.args == '{"n": 1}'


@pytest.mark.requirement("S2.13")
@pytest.mark.parametrize("transition", [RetryJob(A_MINUTE, NO), SnoozeJob(A_MINUTE), ReleaseJob()])
def test_a_job_that_goes_on_keeps_its_key_in_every_state(engine: Engine, transition: Any) -> None:
    [first] = enqueue(engine, keyed())
    worker = engine.worker()
    [claimed] = engine.claim(worker)
    assert enqueue(engine, keyed()) == [(first.job, False)]  # while it runs
    engine.settle(worker, claimed, transition)
    assert enqueue(engine, keyed()) == [(first.job, False)]  # while it waits
    engine.pass_time(A_MINUTE)
    engine.one(chores.promote(SCHEMA, now=engine.now))
    [again] = engine.claim(worker)
    assert (again.job, enqueue(engine, keyed())) == (first.job, [(first.job, False)])


@pytest.mark.requirement("S2.12", "S4.6")
@pytest.mark.parametrize("transition", [CompleteJob(None, None), FailJob(NO), CancelJob(None)])
def test_a_key_is_free_the_moment_its_job_has_ended(engine: Engine, transition: Any) -> None:
    [first] = enqueue(engine, keyed())
    worker = engine.worker()
    [claimed] = engine.claim(worker)
    engine.settle(worker, claimed, transition)
    [second] = enqueue(engine, keyed())
    assert (second.is_new, second.job != first.job) == (True, True)


@pytest.mark.requirement("S2.12", "S4.6")
def test_a_key_is_free_when_its_job_was_cancelled_or_expired_while_it_waited(engine: Engine) -> None:
    [first] = enqueue(engine, keyed())
    engine.hold(operators.cancel(SCHEMA, [first.job], now=engine.now, retention=Retention()))
    [second] = enqueue(engine, keyed(deadline_at=START + A_MINUTE))
    assert second.is_new
    engine.pass_time(A_MINUTE)
    engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention()))
    [third] = enqueue(engine, keyed())
    assert third.is_new
    assert [engine.state(row.job) for row in (first, second, third)] == ["cancelled", "expired", "ready"]


@pytest.mark.requirement("S2.13")
def test_a_dead_job_whose_key_is_held_by_now_stays_dead_and_nothing_fails(engine: Engine) -> None:
    [first] = enqueue(engine, keyed())
    worker = engine.worker()
    [claimed] = engine.claim(worker)
    engine.settle(worker, claimed, FailJob(NO))
    [second] = enqueue(engine, keyed())
    assert engine.hold(operators.retry_dead(SCHEMA, [first.job], now=engine.now)) == {first.job: "duplicate"}
    assert (engine.state(first.job), engine.state(second.job)) == ("failed", "ready")
    engine.hold(operators.cancel(SCHEMA, [second.job], now=engine.now, retention=Retention()))
    assert engine.hold(operators.retry_dead(SCHEMA, [first.job], now=engine.now)) == {first.job: "retried"}
    assert enqueue(engine, keyed()) == [(first.job, False)]


@pytest.mark.parametrize("old", [{}, {"delay": A_MINUTE}])
@pytest.mark.parametrize("new", [{}, {"delay": 2 * A_MINUTE}])
def test_replace_gives_a_waiting_job_new_contents_and_keeps_its_id(
    engine: Engine, old: dict[str, Any], new: dict[str, Any]
) -> None:
    [first] = enqueue(engine, keyed(args={"n": 1}, **old))
    policy = Policy("report", priority=1, max_attempts=3, tags=("new",))
    replacement = NewJob(policy, '{"n":2}', unique_key="k", **new)
    assert enqueue(engine, replacement, on_conflict="replace") == [(first.job, False)]
    found = engine.find(first.job)
    assert found is not None
    assert (found.kind, found.priority, found.max_attempts, found.tags) == ("report", 1, 3, ["new"])
    assert found.args == '{"n": 2}'
    assert (found.state, found.run_at) == (("scheduled", START + 2 * A_MINUTE) if new else ("ready", None))
    assert engine.connection.execute(
        "select (select count(*) from holdfast.ready) + (select count(*) from holdfast.scheduled)"
    ).fetchone() == (1,)


def test_replace_leaves_a_running_job_alone_and_says_so(engine: Engine) -> None:
    [first] = enqueue(engine, keyed(args={"n": 1}))
    worker = engine.worker()
    [claimed] = engine.claim(worker)
    assert enqueue(engine, keyed(args={"n": 2}), on_conflict="replace") == [(first.job, False)]
    found = engine.find(first.job)
    assert found is not None
    assert (found.state, found.args) == ("running", '{"n": 1}')
    assert engine.settle(worker, claimed, CompleteJob(None, None)).answer == "settled"


@pytest.mark.requirement("S0.3", "S4.4")
def test_of_many_callers_that_enqueue_one_key_at_once_one_wins_and_none_fails(
    dsn: str, engine: Engine
) -> None:
    plan = "report/tenant-7/2026-01-01T00:00:00Z"

    def producer(_: int) -> list[jobs.Enqueued]:
        with Engine.on(dsn) as mine:
            return [row for _ in range(20) for row in enqueue(mine, keyed(plan))]

    with ThreadPoolExecutor(8) as pool:
        answers = [row for rows in pool.map(producer, range(8)) for row in rows]
    assert sum(row.is_new for row in answers) == 1
    assert len({row.job for row in answers}) == 1
    assert engine.connection.execute("select count(*) from holdfast.job").fetchone() == (1,)


def test_a_key_that_was_left_behind_is_taken_over_by_the_next_enqueue(engine: Engine) -> None:
    """Left by a settle that found it locked, or by a job that was deleted by hand."""
    [first] = enqueue(engine, keyed())
    engine.connection.execute("delete from holdfast.ready")
    engine.connection.execute("delete from holdfast.job")
    [second] = enqueue(engine, keyed())
    assert (second.is_new, second.job > first.job) == (True, True)
    assert enqueue(engine, keyed()) == [(second.job, False)]
