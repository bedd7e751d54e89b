"""What becomes due by itself: promoted to ready, or ended at its deadline; and how long until then."""

import json
from datetime import timedelta

import psycopg
import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import FailJob, RetryJob, SnoozeJob
from holdfast.storage import chores, jobs
from support.engine import SCHEMA, START, Engine

A_SECOND = timedelta(seconds=1)
A_TICK = timedelta(microseconds=1)
NO = Failure("no")


@pytest.mark.requirement("S0.8", "S1.2", "S3.27")
def test_a_job_is_due_at_its_very_moment_and_not_before(engine: Engine) -> None:
    job = engine.enqueue(Policy("mail", queue="slow", priority=2), delay=A_SECOND)
    engine.pass_time(A_SECOND - A_TICK)
    assert engine.one(chores.promote(SCHEMA, now=engine.now)) == (0, None, 0)
    engine.pass_time(A_TICK)
    assert engine.one(chores.promote(SCHEMA, now=engine.now)) == (1, START + A_SECOND, 0)
    found = engine.find(job)
    assert found is not None
    assert (found.state, found.queue, found.priority, found.run_at) == ("ready", "slow", 2, None)


@pytest.mark.requirement("S0.8", "S3.27", "S3.29")
def test_delays_retries_and_snoozes_are_promoted_alike_and_keep_their_attempts(engine: Engine) -> None:
    worker = engine.worker()
    retried, snoozed = engine.enqueue(), engine.enqueue()
    one, two = engine.claim(worker)
    engine.settle(worker, one, RetryJob(A_SECOND, NO))
    engine.settle(worker, two, SnoozeJob(A_SECOND))
    delayed = engine.enqueue(delay=A_SECOND)
    engine.pass_time(A_SECOND)
    assert engine.one(chores.promote(SCHEMA, now=engine.now)).moved == 3
    found = [engine.find(job) for job in (retried, snoozed, delayed)]
    assert [(each.state, each.attempt, each.finished_at) for each in found if each] == [
        ("ready", 1, None),
        ("ready", 0, None),
        ("ready", 0, None),
    ]


@pytest.mark.requirement("S3.28", "S3.6")
def test_promotion_is_bounded_oldest_first_and_goes_on_from_where_it_was(engine: Engine) -> None:
    new = [NewJob(Policy("mail"), delay=A_SECOND * (n + 1)) for n in range(10)]
    ids = [row.job for row in engine.hold(jobs.enqueue_many(SCHEMA, new, now=engine.now))]
    engine.pass_time(A_SECOND * 60)
    first = engine.one(chores.promote(SCHEMA, limit=4, now=engine.now))
    assert (first.moved, first.seen) == (4, START + 4 * A_SECOND)
    assert [job for job in ids if engine.state(job) == "ready"] == ids[:4]
    second = engine.one(chores.promote(SCHEMA, since=first.seen, limit=4, now=engine.now))
    assert (second.moved, second.seen) == (4, START + 8 * A_SECOND)
    assert engine.one(chores.promote(SCHEMA, since=second.seen, limit=4, now=engine.now)).moved == 2


@pytest.mark.requirement("S3.6", "S3.28")
def test_two_leaders_that_promote_at_once_move_each_job_once(dsn: str, engine: Engine) -> None:
    for _ in range(6):
        engine.enqueue(delay=A_SECOND)
    engine.pass_time(A_SECOND)
    with Engine.on(dsn, now=engine.now) as other, other.connection.transaction():
        assert other.one(chores.promote(SCHEMA, limit=4, now=other.now)).moved == 4
        engine.connection.execute("set statement_timeout = '5s'")
        assert engine.one(chores.promote(SCHEMA, now=engine.now)).moved == 2
    assert engine.connection.execute(
        "select count(*), count(distinct job) from holdfast.ready"
    ).fetchone() == (6, 6)


@pytest.mark.requirement("S2.16")
def test_promotion_wakes_each_queue_once(dsn: str, engine: Engine) -> None:
    for n in range(10):
        engine.enqueue(Policy("mail", queue=f"queue {n % 2}"), delay=A_SECOND)
    engine.pass_time(A_SECOND)
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute('listen "holdfast.ready"')
        engine.one(chores.promote(SCHEMA, now=engine.now))
        heard = sorted(told.payload for told in listener.notifies(timeout=10, stop_after=2))
        assert list(listener.notifies(timeout=0)) == []
    assert heard == ["queue 0", "queue 1"]


@pytest.mark.requirement("S2.32")
@pytest.mark.parametrize("delay", [None, timedelta(days=1)])
def test_a_waiting_job_ends_at_its_deadline_for_good(engine: Engine, delay: timedelta | None) -> None:
    job = engine.enqueue(delay=delay, deadline_at=START + A_SECOND)
    engine.pass_time(A_SECOND - A_TICK)
    assert engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention()))[:2] == (0, None)
    engine.pass_time(A_TICK)
    assert engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention()))[:2] == (
        1,
        START + A_SECOND,
    )
    found = engine.find(job)
    assert found is not None
    assert (found.state, found.attempt, found.finished_at) == ("expired", 0, START + A_SECOND)
    error = json.loads(found.error or "")
    assert error == {"code": "deadline_expired", "message": "did not complete before its deadline"}
    engine.pass_time(timedelta(days=2))
    assert engine.one(chores.promote(SCHEMA, now=engine.now)).moved == 0
    assert engine.claim(engine.worker()) == []


def test_a_running_job_is_left_to_its_timeout_which_is_never_later_than_its_deadline(engine: Engine) -> None:
    job = engine.enqueue(deadline_at=START + A_SECOND)
    [claimed] = engine.claim(engine.worker())
    assert claimed.timeout_at == START + A_SECOND
    engine.pass_time(2 * A_SECOND)
    assert engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention())).moved == 0
    assert engine.state(job) == "running"


def test_an_expiry_pass_misses_nothing_when_one_table_has_more_than_its_limit(engine: Engine) -> None:
    """The next pass begins where this one ended: behind what was seen of both tables, not of the one."""
    for n in range(6):
        engine.enqueue(deadline_at=START + A_SECOND * (n + 1))
    engine.enqueue(delay=timedelta(days=1), deadline_at=START + A_SECOND * 30)
    engine.pass_time(A_SECOND * 60)
    since, moved = None, []
    for _ in range(4):
        done = engine.one(chores.expire(SCHEMA, since=since, limit=2, now=engine.now, retention=Retention()))
        since = done.seen or since
        moved.append(done.moved)
    assert sum(moved) == 7


@pytest.mark.requirement("S1.7", "S2.22")
def test_the_next_due_time_is_the_earliest_of_all_that_is_to_come(engine: Engine) -> None:
    assert engine.one(chores.next_due(SCHEMA, now=engine.now)) == (None, None)
    for seconds in (50, 20, 90):
        engine.enqueue(delay=A_SECOND * seconds, deadline_at=START + A_SECOND * (seconds + 40))
    engine.enqueue(deadline_at=START + A_SECOND * 70)
    assert engine.one(chores.next_due(SCHEMA, now=engine.now)) == (
        20 * A_SECOND,
        60 * A_SECOND,
    )


@pytest.mark.requirement("S1.7")
def test_a_job_that_has_failed_for_good_is_not_waited_for(engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue(deadline_at=START + A_SECOND * 70)
    [claimed] = engine.claim(worker)
    engine.settle(worker, claimed, FailJob(NO))
    assert engine.one(chores.next_due(SCHEMA, now=engine.now)) == (None, None)


@pytest.mark.requirement("S1.8")
def test_what_is_due_already_is_due_in_nothing_and_never_in_less(engine: Engine) -> None:
    engine.enqueue(delay=A_SECOND, deadline_at=START + 2 * A_SECOND)
    engine.pass_time(timedelta(days=1))
    assert engine.one(chores.next_due(SCHEMA, now=engine.now)) == (timedelta(),) * 2


def test_a_hint_leaves_out_what_lies_before_it(engine: Engine) -> None:
    engine.enqueue(delay=A_SECOND)
    engine.enqueue(delay=5 * A_SECOND)
    assert engine.one(chores.next_due(SCHEMA, since=START + 2 * A_SECOND, now=engine.now)).run == 5 * A_SECOND
