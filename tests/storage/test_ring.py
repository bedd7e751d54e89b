"""The ring: new rows go to one segment, drained ones are truncated, and nothing is lost on the way."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.domain.job import NewJob, Policy
from holdfast.domain.retention import Retention
from holdfast.domain.ring import SEGMENTS, Pace, next_moves
from holdfast.domain.transition import CompleteJob, ReleaseJob
from holdfast.storage import chores, jobs, operators, ring, runs
from support.engine import SCHEMA, START, Engine

A_MINUTE = timedelta(minutes=1)


def turn(engine: Engine, to: int) -> None:
    version = engine.one(ring.look_at_ring(SCHEMA, now=engine.now)).version
    engine.one(ring.turn(SCHEMA, to=to, version=version, now=engine.now))


def close(engine: Engine, segment: int) -> int:
    version = engine.one(ring.look_at_ring(SCHEMA, now=engine.now)).version
    return engine.one(ring.close(SCHEMA, segment=segment, version=version, now=engine.now))


def segments(engine: Engine) -> dict[int, int]:
    return dict(
        engine.connection.execute("select segment, count(*) from holdfast.ready group by 1").fetchall()
    )


def test_whatever_becomes_ready_goes_to_the_current_segment(engine: Engine) -> None:
    worker = engine.worker()
    later, released = engine.enqueue(delay=A_MINUTE), engine.enqueue()
    [claimed] = engine.claim(worker)
    turn(engine, 2)
    engine.settle(worker, claimed, ReleaseJob())
    engine.enqueue()
    engine.pass_time(A_MINUTE)
    engine.one(chores.promote(SCHEMA, now=engine.now))
    engine.connection.execute("select holdfast.enqueue('mail')")
    assert segments(engine) == {2: 4}
    assert {engine.state(job) for job in (later, released)} == {"ready"}


def test_order_is_kept_across_segments(engine: Engine) -> None:
    asked = []
    for segment in (0, 1, 2, 3):
        turn(engine, segment)
        asked += [(priority, engine.enqueue(Policy("mail", priority=priority))) for priority in (5, 1)]
    worker = engine.worker()
    assert [row.job for _ in asked for row in engine.claim(worker, limit=1)] == [
        job for _, job in sorted(asked)
    ]


def test_a_turn_or_a_close_that_comes_too_late_is_refused(engine: Engine) -> None:
    old = engine.one(ring.look_at_ring(SCHEMA)).version
    assert engine.run(ring.turn(SCHEMA, to=1, version=old)) == [old + 1]
    assert engine.run(ring.turn(SCHEMA, to=2, version=old)) == []
    assert engine.run(ring.close(SCHEMA, segment=0, version=old)) == []
    assert engine.one(ring.look_at_ring(SCHEMA)).current == 1


def test_the_current_segment_is_never_closed_and_a_closed_one_never_becomes_current(engine: Engine) -> None:
    version = engine.one(ring.look_at_ring(SCHEMA)).version
    assert engine.run(ring.close(SCHEMA, segment=0, version=version, now=engine.now)) == []
    version = close(engine, 1)
    assert engine.run(ring.turn(SCHEMA, to=1, version=version, now=engine.now)) == []
    assert engine.run(ring.close(SCHEMA, segment=2, version=version, now=engine.now)) == []  # one at a time


def test_a_claim_that_leaves_out_a_segment_gets_the_rest_and_learns_when_it_is_back(engine: Engine) -> None:
    first = engine.enqueue()
    turn(engine, 1)
    second = engine.enqueue()
    version = close(engine, 0)
    worker = engine.worker()
    rows = engine.run(
        runs.claim(SCHEMA, worker=worker, queue="default", kinds=["mail"], limit=5, closed=0, now=START)
    )
    assert [(row.job, row.ring_version, row.closed) for row in rows] == [(second, version, 0)]
    engine.one(ring.reopen(SCHEMA, segment=0))
    look = engine.one(runs.look(SCHEMA, queues=["default"], kinds=["mail"], closed=0, now=START))
    assert look == (version + 1, None, [])
    assert [row.job for row in engine.claim(worker)] == [first]


def test_a_closing_that_was_left_behind_expires_by_itself(engine: Engine) -> None:
    turn(engine, 1)
    close(engine, 0)
    assert engine.one(ring.look_at_ring(SCHEMA, now=engine.now)).closed == 0
    engine.pass_time(ring.CLOSED_FOR)
    assert engine.one(ring.look_at_ring(SCHEMA, now=engine.now)).closed is None
    close(engine, 2)


def test_a_drained_segment_is_truncated_and_gives_its_space_back(engine: Engine) -> None:
    engine.hold(jobs.enqueue_many(SCHEMA, (NewJob(Policy("mail")) for _ in range(500)), now=engine.now))
    engine.claim(engine.worker(), limit=500)
    assert engine.one(ring.look_at_ring(SCHEMA)).sizes[0] > 0
    turn(engine, 1)
    close(engine, 0)
    assert engine.truncate(0) is True
    assert engine.one(ring.look_at_ring(SCHEMA)).sizes == (0, 0, 0, 0)


def test_a_segment_with_rows_or_that_is_not_closed_is_not_truncated(engine: Engine) -> None:
    job = engine.enqueue()
    turn(engine, 1)
    assert engine.truncate(0) is False
    close(engine, 0)
    assert engine.truncate(0) is False
    assert engine.state(job) == "ready"


def test_a_truncate_does_not_wait_for_a_segment_in_use(dsn: str, engine: Engine) -> None:
    turn(engine, 1)
    close(engine, 0)
    with psycopg.connect(dsn) as caller:
        caller.execute("insert into holdfast.ready select 1, now(), null, 0, 5, 0, 'q', 'k'")
        engine.connection.execute("set statement_timeout = '5s'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            engine.truncate(0)


def locked(connection: psycopg.Connection[Any]) -> set[str]:
    rows = connection.execute(
        "select c.relname from pg_locks l join pg_class c on c.oid = l.relation"
        " where l.pid = pg_backend_pid() and l.granted and c.relname ~ '^ready' and c.relkind in ('r', 'p')"
    )
    return {name for (name,) in rows}


@pytest.mark.parametrize("closed", SEGMENTS)
def test_a_claim_does_not_so_much_as_lock_the_segment_it_leaves_out(engine: Engine, closed: int) -> None:
    engine.enqueue()
    worker = engine.worker()
    with engine.connection.transaction():
        engine.claim(worker, closed=closed)
        engine.run(runs.look(SCHEMA, queues=["default"], kinds=["mail"], closed=closed))
        touched = locked(engine.connection)
    assert f"ready_{closed}" not in touched
    assert "ready_parked" not in touched
    assert {f"ready_{segment}" for segment in SEGMENTS if segment != closed} <= touched


def test_an_enqueue_locks_only_the_segment_it_writes_to(engine: Engine) -> None:
    turn(engine, 2)
    with engine.connection.transaction():
        engine.enqueue()
        assert locked(engine.connection) == {"ready", "ready_2"}


def test_a_segment_can_be_truncated_while_claims_and_enqueues_are_under_way(dsn: str, engine: Engine) -> None:
    engine.enqueue()
    turn(engine, 1)
    engine.claim(engine.worker())
    close(engine, 0)
    with Engine.on(dsn) as other, other.connection.transaction():
        other.enqueue()
        other.claim(other.worker(), closed=0)
        engine.connection.execute("set statement_timeout = '5s'")
        assert engine.truncate(0) is True


def test_the_rest_of_a_segment_is_gathered_and_a_backlog_is_left(engine: Engine) -> None:
    rest = [engine.enqueue(Policy("mail", priority=n)) for n in range(3)]
    assert engine.one(ring.gather(SCHEMA, segment=0)) == 0  # it is the current one
    turn(engine, 1)
    assert engine.one(ring.gather(SCHEMA, segment=0, limit=2)) == 0  # more than a rest
    assert engine.one(ring.gather(SCHEMA, segment=0, limit=3)) == 3
    assert segments(engine) == {1: 3}
    worker = engine.worker()
    assert [row.job for _ in rest for row in engine.claim(worker, limit=1)] == rest


def test_jobs_that_no_worker_can_take_are_parked_and_come_back_when_one_can(dsn: str, engine: Engine) -> None:
    mail, fax = engine.enqueue(), engine.enqueue(Policy("fax"))
    paused = engine.enqueue(Policy("mail", queue="paused"))
    engine.one(operators.pause(SCHEMA, queue="paused", now=engine.now))
    assert engine.one(ring.park(SCHEMA, segment=0, now=engine.now)) == 0, "no worker is alive yet"
    worker = engine.worker(queues=("default", "paused"))
    assert engine.one(ring.park(SCHEMA, segment=0, now=engine.now)) == 2
    shown = {job: found.is_parked for job in (mail, fax, paused) if (found := engine.find(job))}
    assert shown == {mail: False, fax: True, paused: True}
    assert engine.one(ring.unpark(SCHEMA, now=engine.now)) == 0
    engine.run(operators.resume(SCHEMA, queue="paused", now=engine.now))
    engine.worker(kinds=("fax",))
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute('listen "holdfast.ready"')
        assert engine.one(ring.unpark(SCHEMA, limit=1, now=engine.now)) == 1
        assert engine.one(ring.unpark(SCHEMA, now=engine.now)) == 1
        assert {told.payload for told in listener.notifies(timeout=10, stop_after=2)} == {"default", "paused"}
    assert [row.job for row in engine.claim(worker, queue="paused")] == [paused]
    assert segments(engine) == {0: 2}


def test_a_parked_job_still_expires_at_its_deadline(engine: Engine) -> None:
    job = engine.enqueue(Policy("fax"), deadline_at=START + A_MINUTE)
    engine.worker()
    assert engine.one(ring.park(SCHEMA, segment=0, now=engine.now)) == 1
    engine.pass_time(A_MINUTE)
    assert engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention())).moved == 1
    assert engine.state(job) == "expired"


def test_a_leader_that_follows_the_moves_keeps_the_ring_small_and_loses_nothing(engine: Engine) -> None:
    """Enqueue, claim and settle for several rounds, with one job among them that no worker takes."""
    stuck = engine.enqueue(Policy("fax"))
    worker = engine.worker()
    done = 0
    for _ in range(12):
        engine.hold(jobs.enqueue_many(SCHEMA, (NewJob(Policy("mail")) for _ in range(50)), now=engine.now))
        for claimed in engine.claim(worker, limit=50):
            done += engine.settle(worker, claimed, CompleteJob(None, None)).answer == "settled"
        lead(engine)
    assert done == 600
    assert engine.state(stuck) == "ready"
    assert sum(1 for size in engine.one(ring.look_at_ring(SCHEMA)).sizes if size) <= 2


def lead(engine: Engine) -> None:
    seen = engine.one(ring.look_at_ring(SCHEMA, now=engine.now))
    moves = next_moves(seen, Pace(full=1))
    if moves.turn_to is not None:
        engine.run(ring.turn(SCHEMA, to=moves.turn_to, version=seen.version, now=engine.now))
    for segment in SEGMENTS:
        engine.run(ring.park(SCHEMA, segment=segment, now=engine.now))
    for segment in next_moves(engine.one(ring.look_at_ring(SCHEMA, now=engine.now)), Pace()).clear:
        engine.run(ring.gather(SCHEMA, segment=segment))
        close(engine, segment)
        engine.truncate(segment)
        engine.run(ring.reopen(SCHEMA, segment=segment))
