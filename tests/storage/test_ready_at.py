"""`ready_at`: each statement that makes a job ready notes when, and each run keeps it."""

from datetime import datetime, timedelta

from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob, FailJob, ReleaseJob, RetryJob, SnoozeJob
from holdfast.storage import chores, jobs, operators, ring, workers
from support.engine import SCHEMA, START, Engine

A_MINUTE = timedelta(minutes=1)
NO = Failure("no")


def since(engine: Engine, job: int) -> datetime:
    [(ready_at,)] = engine.connection.execute("select ready_at from holdfast.ready where job = %s", [job])
    return ready_at  # type: ignore[no-any-return]


def waits(engine: Engine, job: int) -> list[timedelta | None]:
    """How long each run of a job waited, oldest first, as the ledger has it."""
    rows = engine.connection.execute(
        "select started_at - ready_at from holdfast.ledger where job = %s order by run", [job]
    )
    return [wait for (wait,) in rows]


def test_a_job_is_ready_from_the_time_it_was_enqueued(engine: Engine) -> None:
    alone = engine.enqueue()
    unique = engine.enqueue(unique_key="k")
    past = engine.enqueue(run_at=START - A_MINUTE)
    alike = [NewJob(policy := Policy("mail")), NewJob(policy)]
    mixed = [NewJob(Policy("mail", priority=1)), NewJob(Policy("mail", priority=2), deadline_in=A_MINUTE)]
    many = [
        row.job
        for batch in (alike, mixed)
        for row in engine.run(jobs.enqueue(SCHEMA, batch, notify=False, now=START))
    ]
    [(by_function,)] = engine.connection.execute("select holdfast.enqueue('mail', now => %s)", [START])
    assert {since(engine, job) for job in (alone, unique, past, *many, by_function)} == {START}


def test_a_delayed_job_is_ready_from_the_end_of_its_delay_however_late_it_is_promoted(engine: Engine) -> None:
    job = engine.enqueue(delay=A_MINUTE)
    engine.pass_time(3 * A_MINUTE)
    engine.one(chores.promote(SCHEMA, now=engine.now))
    assert since(engine, job) == START + A_MINUTE


def test_each_run_tells_its_own_wait(engine: Engine) -> None:
    worker = engine.worker()
    job = engine.enqueue()
    for transition in (RetryJob(A_MINUTE, NO), SnoozeJob(A_MINUTE), ReleaseJob(), CompleteJob(None, None)):
        engine.pass_time(A_MINUTE)
        engine.one(chores.promote(SCHEMA, now=engine.now))
        engine.pass_time(A_MINUTE)
        [row] = engine.claim(worker)
        engine.settle(worker, row, transition)
    # Only the released run is ready again at once; both steps of time pass before it is claimed.
    assert waits(engine, job) == [2 * A_MINUTE, A_MINUTE, A_MINUTE, 2 * A_MINUTE]


def test_a_run_that_was_taken_away_keeps_its_wait(engine: Engine) -> None:
    worker = engine.worker()
    job = engine.enqueue()
    engine.claim(worker)
    engine.pass_time(workers.LEASE * 2)
    engine.run(workers.mark_lost(SCHEMA, now=engine.now))
    engine.hold(chores.rescue(SCHEMA, luck=0.5, now=engine.now, retention=Retention()))
    assert waits(engine, job) == [timedelta(0)]


def test_a_dead_job_is_ready_again_from_the_time_it_was_resumed(engine: Engine) -> None:
    worker = engine.worker()
    job = engine.enqueue()
    [row] = engine.claim(worker)
    engine.settle(worker, row, FailJob(NO))
    engine.pass_time(A_MINUTE)
    assert engine.hold(operators.resume_dead(SCHEMA, [job], now=engine.now)) == {job: "resumed"}
    assert since(engine, job) == START + A_MINUTE


def test_a_job_that_moves_inside_ready_keeps_its_time(engine: Engine) -> None:
    engine.worker()
    job = engine.enqueue(Policy("unknown"))
    engine.pass_time(A_MINUTE)
    assert engine.one(ring.park(SCHEMA, segment=0, now=engine.now)) == 1
    engine.worker(kinds=("unknown",))
    assert engine.one(ring.unpark(SCHEMA, now=engine.now)) == 1
    engine.hold(operators.reprioritise(SCHEMA, [job], priority=1))
    [(version,)] = engine.connection.execute("select version from holdfast.ring")
    engine.one(ring.turn(SCHEMA, to=1, version=version, now=engine.now))
    assert engine.one(ring.gather(SCHEMA, segment=0)) == 1
    assert since(engine, job) == START


def test_an_ending_without_a_run_tells_no_wait(engine: Engine) -> None:
    job = engine.enqueue()
    engine.hold(operators.cancel(SCHEMA, [job], now=engine.now, retention=Retention()))
    assert waits(engine, job) == [None]
