"""Workers beat and one of them leads, by the database's clock."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.errors import InvalidInput
from holdfast.storage import chores, runs, workers
from support.engine import SCHEMA, START, Engine

A_MINUTE = timedelta(minutes=1)
A_TICK = timedelta(microseconds=1)


def beat(engine: Engine, worker: int, *numbers: int, lease: timedelta = workers.LEASE) -> runs.Heartbeat:
    return engine.one(runs.renew(SCHEMA, worker=worker, lease=lease, runs=numbers, now=engine.now))


def row(engine: Engine, worker: int, columns: str) -> tuple[object, ...]:
    [found] = engine.connection.execute(f"select {columns} from holdfast.worker where id = %s", [worker])
    return tuple(found)


@pytest.mark.requirement("S1.9")
def test_a_worker_says_who_it_is_and_has_a_lease_from_the_databases_clock(dsn: str, engine: Engine) -> None:
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute('listen "holdfast.leader"')
        worker = engine.worker(queues=("a", "b"), kinds=("mail", "fax"))
        [told] = listener.notifies(timeout=10, stop_after=1)
        assert told.payload == "unpark"
    assert row(engine, worker, "queues, kinds, slots") == (["a", "b"], ["mail", "fax"], 10)
    assert row(engine, worker, "started_at, beat_at, expires_at") == (START, START, START + workers.LEASE)
    assert row(engine, worker, "lost_at") == (None,)


@pytest.mark.requirement("S0.18", "S1.12", "S4.15")
def test_one_heartbeat_renews_the_lease_of_all_its_runs(engine: Engine) -> None:
    worker = engine.worker()
    held = [engine.enqueue() for _ in range(3)]
    numbers = [claimed.run for claimed in engine.claim(worker)]
    for _ in range(5):
        engine.pass_time(workers.LEASE - A_TICK)
        assert beat(engine, worker, *numbers)[:5] == (True, [], [], [], [])
        assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == []
    assert engine.now is not None
    assert row(engine, worker, "beat_at, expires_at") == (engine.now, engine.now + workers.LEASE)
    assert {engine.state(job) for job in held} == {"running"}


@pytest.mark.requirement("S0.18", "S1.12", "S1.13")
def test_a_worker_that_was_marked_lost_learns_it_and_renews_nothing(engine: Engine) -> None:
    engine.enqueue()
    worker = engine.worker()
    [claimed] = engine.claim(worker)
    engine.pass_time(workers.LEASE + A_TICK)
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == [worker]
    before = row(engine, worker, "beat_at, expires_at")
    assert beat(engine, worker, claimed.run).is_alive is False
    assert row(engine, worker, "beat_at, expires_at") == before
    engine.hold(chores.rescue(SCHEMA, luck=0.5, now=engine.now, retention=Retention()))
    assert beat(engine, worker, claimed.run)[:5] == (False, [claimed.run], [], [], [])


@pytest.mark.requirement("S1.14")
def test_a_worker_without_runs_beats_all_the_same_and_has_nothing_to_hear(engine: Engine) -> None:
    assert beat(engine, engine.worker())[:5] == (True, [], [], [], [])


def test_memory_and_database_are_compared_in_both_directions(engine: Engine) -> None:
    """A claim whose reply was lost left leases that the worker does not know of."""
    worker = engine.worker()
    for _ in range(3):
        engine.enqueue()
    known, done, unknown = sorted(engine.claim(worker), key=lambda claimed: claimed.job or 0)
    engine.settle(worker, done, CompleteJob(None, None))
    told = beat(engine, worker, known.run, done.run)
    assert told[:5] == (True, [done.run], [], [unknown.job], [unknown.run])


@pytest.mark.requirement("S0.13", "S1.11")
def test_a_lease_is_kept_to_the_microsecond_and_must_be_longer_than_nothing(engine: Engine) -> None:
    worker = engine.worker()
    beat(engine, worker, lease=A_TICK)
    assert row(engine, worker, "expires_at") == (START + A_TICK,)
    beat(engine, worker, lease=timedelta(seconds=1.5))
    assert row(engine, worker, "expires_at - beat_at") == (timedelta(seconds=1.5),)
    beat(engine, worker, lease=timedelta.max)  # as good as for ever
    assert row(engine, worker, "expires_at - beat_at") == (timedelta(days=36_525),)
    for length in (timedelta(), -A_TICK):
        with pytest.raises(InvalidInput, match=r"lease is .*: it must be above 0"):
            runs.renew(SCHEMA, worker=worker, lease=length, runs=[])
        with pytest.raises(InvalidInput, match="above 0"):
            workers.lead(SCHEMA, worker=worker, lease=length)
        with pytest.raises(InvalidInput, match="above 0"):
            workers.register(
                SCHEMA, host="h", pid=1, version="0", queues=[], kinds=[], slots=1, lease=length, now=START
            )


def test_a_worker_that_retires_is_gone_or_leaves_its_runs_to_rescue(engine: Engine) -> None:
    idle, busy = engine.worker(), engine.worker()
    engine.enqueue()
    engine.claim(busy)
    assert engine.hold(workers.retire(SCHEMA, worker=idle, now=engine.now)) is True
    assert engine.hold(workers.retire(SCHEMA, worker=busy, now=engine.now)) is False
    assert engine.hold(workers.retire(SCHEMA, worker=idle, now=engine.now)) is True  # sent again
    engine.pass_time(A_TICK)
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == [busy]
    assert [
        taken.settled.outcome
        for taken in engine.hold(chores.rescue(SCHEMA, luck=0, now=engine.now, retention=Retention()))
    ] == ["retried"]


@pytest.mark.requirement("S3.1")
def test_one_worker_leads_at_a_time_and_its_term_lasts_while_it_renews(engine: Engine) -> None:
    one, two = engine.worker(), engine.worker()
    assert engine.run(workers.lead(SCHEMA, worker=one, now=engine.now)) == [(1, False)]
    assert engine.run(workers.lead(SCHEMA, worker=two, now=engine.now)) == []
    for _ in range(3):
        engine.pass_time(workers.LEAD - A_TICK)
        assert engine.run(workers.lead(SCHEMA, worker=one, now=engine.now)) == [(1, False)]
        assert engine.run(workers.lead(SCHEMA, worker=two, now=engine.now)) == []


@pytest.mark.requirement("S3.1", "S3.4")
def test_a_leader_that_does_not_renew_is_followed_by_another_with_a_higher_term(engine: Engine) -> None:
    one, two = engine.worker(), engine.worker()
    engine.run(workers.lead(SCHEMA, worker=one, now=engine.now))
    engine.pass_time(workers.LEAD)
    assert engine.run(workers.lead(SCHEMA, worker=two, now=engine.now)) == [(2, False)]
    assert engine.run(workers.lead(SCHEMA, worker=one, now=engine.now)) == []
    shown = engine.connection.execute("select worker, term, expires_at from holdfast.leader").fetchall()
    assert engine.now is not None
    assert shown == [(two, 2, engine.now + workers.LEAD)]


def test_the_leader_is_told_whether_the_lease_of_any_worker_has_run_out(engine: Engine) -> None:
    leading, silent = engine.worker(), engine.worker()
    engine.pass_time(workers.LEASE)
    engine.run(runs.renew(SCHEMA, worker=leading, runs=[], lease=workers.LEASE, now=engine.now))
    assert engine.run(workers.lead(SCHEMA, worker=leading, now=engine.now)) == [(1, False)]
    engine.pass_time(A_TICK)
    assert engine.run(workers.lead(SCHEMA, worker=leading, now=engine.now)) == [(1, True)]
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == [silent]
    assert engine.run(workers.lead(SCHEMA, worker=leading, now=engine.now)) == [(1, False)]


@pytest.mark.requirement("S3.5")
def test_a_leader_that_steps_down_is_followed_at_once(engine: Engine) -> None:
    one, two = engine.worker(), engine.worker()
    engine.run(workers.lead(SCHEMA, worker=one, now=engine.now))
    assert engine.run(workers.step_down(SCHEMA, worker=two, now=engine.now)) == []
    assert engine.run(workers.step_down(SCHEMA, worker=one, now=engine.now)) == [1]
    assert engine.run(workers.step_down(SCHEMA, worker=one, now=engine.now)) == []
    assert engine.run(workers.lead(SCHEMA, worker=two, now=engine.now)) == [(2, False)]


@pytest.mark.requirement("S3.1", "S3.6")
def test_of_many_workers_that_want_to_lead_at_once_one_does(dsn: str, engine: Engine) -> None:
    candidates = [engine.worker() for _ in range(8)]

    def stand(worker: int) -> list[int]:
        with Engine.on(dsn) as mine:
            return [worker for _ in range(10) if mine.run(workers.lead(SCHEMA, worker=worker, now=START))]

    with ThreadPoolExecutor(8) as pool:
        leaders = {worker for part in pool.map(stand, candidates) for worker in part}
    assert len(leaders) == 1


@pytest.mark.requirement("S0.9")
def test_a_lease_that_ends_at_this_very_moment_has_not_run_out(engine: Engine) -> None:
    worker = engine.worker()
    engine.pass_time(workers.LEASE)
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == []
    engine.pass_time(A_TICK)
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == [worker]
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == []  # once
    assert row(engine, worker, "lost_at") == (engine.now,)


def test_a_worker_that_is_claiming_is_not_marked_meanwhile(dsn: str, engine: Engine) -> None:
    engine.enqueue()
    worker = engine.worker()
    with Engine.on(dsn) as other, other.connection.transaction():
        other.claim(worker)
        engine.pass_time(A_MINUTE)
        engine.connection.execute("set statement_timeout = '5s'")
        assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == []
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == [worker]
