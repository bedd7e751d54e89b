"""Notices of ends: which statements leave one, and what the leader reports of those that no worker took."""

from datetime import timedelta

from holdfast.domain.job import Policy
from holdfast.domain.retention import NOTICES, Retention
from holdfast.storage import notices, operators, runs, workers
from support.engine import SCHEMA, Engine

TEN_MINUTES = timedelta(minutes=10)


def overdue(engine: Engine) -> list[notices.Untold]:
    return engine.run(notices.overdue_notices(SCHEMA, now=engine.now))


def count(engine: Engine) -> int:
    [(number,)] = engine.connection.execute("select count(*) from holdfast.notice").fetchall()
    return int(number)


def hearing(engine: Engine, **hears: list[str]) -> int:
    return engine.one(
        workers.register(
            SCHEMA,
            host="host",
            pid=1,
            version="0",
            queues=["default"],
            kinds=["mail"],
            slots=10,
            hears=hears,
            now=engine.now,
        )
    )


def cancelled(engine: Engine, keep: timedelta | None = None) -> int:
    job = engine.enqueue(Policy("mail", keep=keep))
    engine.hold(operators.cancel(SCHEMA, [job], now=engine.now, retention=Retention()))
    return job


def test_a_notice_is_left_only_where_a_hook_may_hear_of_it(engine: Engine) -> None:
    cancelled(engine)
    assert count(engine) == 1, "no worker says whether there is a hook"
    hearing(engine, failed=["mail"], cancelled=[])
    cancelled(engine)
    assert count(engine) == 1, "every worker that knows the kind has no hook for this"
    hearing(engine, cancelled=["mail"])
    cancelled(engine)
    assert count(engine) == 2


def test_a_job_that_is_forgotten_at_its_end_is_told_of_all_the_same(engine: Engine) -> None:
    job = cancelled(engine, keep=timedelta())
    assert engine.find(job) is None
    worker = hearing(engine, cancelled=["mail"])
    [taken] = engine.run(notices.take_notices(SCHEMA, worker=worker, kinds=["mail"]))
    assert (taken.job, taken.outcome, taken.queue, taken.max_attempts) == (job, "cancelled", "default", 20)
    assert engine.run(notices.drop_notice(SCHEMA, taken)) == [taken.run]
    assert engine.run(notices.drop_notice(SCHEMA, taken)) == []


def test_a_notice_that_no_worker_takes_within_ten_minutes_is_reported_once_and_kept(
    engine: Engine,
) -> None:
    first, _ = cancelled(engine), cancelled(engine)
    engine.pass_time(TEN_MINUTES - timedelta(seconds=1))
    assert overdue(engine) == []
    engine.pass_time(timedelta(seconds=1))
    assert overdue(engine) == [("mail", "cancelled", 2, first)]
    assert overdue(engine) == []
    assert count(engine) == 2
    engine.pass_time(NOTICES)
    assert overdue(engine) == []
    assert count(engine) == 0


def test_what_a_live_worker_has_taken_is_not_overdue(engine: Engine) -> None:
    cancelled(engine)
    worker = engine.worker()
    assert len(engine.run(notices.take_notices(SCHEMA, worker=worker, kinds=["mail"]))) == 1
    engine.pass_time(TEN_MINUTES)
    assert overdue(engine) == []


def test_a_heartbeat_says_that_there_is_something_to_tell(engine: Engine) -> None:
    worker, other = engine.worker(), engine.worker(kinds=("pay",))

    def is_told(worker: int) -> bool:
        beat = runs.renew(SCHEMA, worker=worker, lease=workers.LEASE, runs=(), now=engine.now)
        return engine.one(beat).is_any_untold

    assert not is_told(worker)
    cancelled(engine)
    assert is_told(worker)
    assert not is_told(other), "it does not know the kind"
    engine.run(notices.take_notices(SCHEMA, worker=worker, kinds=["mail"]))
    assert not is_told(worker)
