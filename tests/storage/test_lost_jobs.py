"""Jobs with a row deleted by hand: what operators can still do with them."""

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.retention import Retention
from holdfast.domain.transition import FailJob
from holdfast.storage import chores, job_verbs, operators
from support.engine import SCHEMA, Engine


@pytest.mark.parametrize("place", ["ready", "lease"])
def test_a_job_that_is_nowhere_can_be_cancelled_and_the_ledger_says_why(dsn: str, place: str) -> None:
    with Engine.on(dsn) as engine:
        worker, job = engine.worker(), engine.enqueue()
        if place == "lease":
            engine.claim(worker)
        engine.connection.execute(f"delete from holdfast.{place}")
        assert engine.state(job) == "lost"
        cancelled = engine.hold(
            operators.cancel(SCHEMA, [job], reason="it was lost", now=engine.now, retention=Retention())
        )
        assert cancelled == {job: "cancelled"}
        [entry] = engine.history(job)
        assert (entry.outcome, entry.is_final, "it was lost" in (entry.error or "")) == (
            "cancelled",
            True,
            True,
        )
        assert engine.connection.execute("select count(*) from holdfast.scheduled").fetchone() == (0,)
        assert engine.hold(operators.cancel(SCHEMA, [job], now=engine.now, retention=Retention())) == {
            job: "final"
        }


def test_a_job_that_another_transaction_moves_is_busy_and_not_taken_for_lost(dsn: str) -> None:
    with Engine.on(dsn) as engine, Engine.on(dsn) as other:
        job = engine.enqueue()
        with other.connection.transaction():
            other.connection.execute("delete from holdfast.ready")
            other.connection.execute(
                "insert into holdfast.scheduled (job, run_at, attempt) values (%s, now(), 0)", [job]
            )
            assert engine.hold(operators.cancel(SCHEMA, [job], now=engine.now, retention=Retention())) == {
                job: "busy"
            }
        assert engine.history(job) == []
        assert engine.hold(operators.cancel(SCHEMA, [job], now=engine.now, retention=Retention())) == {
            job: "cancelled"
        }


def dead(engine: Engine) -> int:
    worker, job = engine.worker(), engine.enqueue()
    [claimed] = engine.claim(worker)
    engine.settle(worker, claimed, FailJob(Failure("no")))
    return job


@pytest.mark.parametrize("verb", ["resume", "retry"])
def test_a_dead_job_without_its_ledger_row_can_run_again(dsn: str, verb: str) -> None:
    with Engine.on(dsn) as engine:
        job = dead(engine)
        engine.connection.execute("delete from holdfast.ledger")
        asked = operators.resume_dead if verb == "resume" else operators.retry_dead
        assert set(engine.hold(asked(SCHEMA, [job], now=engine.now)).values()) <= {"resumed", "retried"}
        assert [row.job for row in engine.claim(engine.worker())] == [job]


def test_a_dead_row_without_its_ledger_row_or_its_job_can_be_deleted(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        first, second = dead(engine), dead(engine)
        engine.connection.execute("delete from holdfast.ledger where job = %s", [first])
        engine.connection.execute("delete from holdfast.job where id = %s", [second])
        assert engine.hold(operators.retry_dead(SCHEMA, [second], now=engine.now)) == {second: "unknown"}
        answers = engine.hold(job_verbs.delete(SCHEMA, [first, second], with_waiting=False))
        assert answers == {first: "deleted", second: "deleted"}
        assert engine.connection.execute("select count(*) from holdfast.dead").fetchone() == (0,)


def test_an_entry_of_scheduled_whose_job_is_gone_is_dropped_and_counted(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        engine.connection.execute(
            "insert into holdfast.scheduled (job, run_at, attempt) values (4711, '2000-01-01Z', 0)"
        )
        done = engine.one(chores.promote(SCHEMA, now=engine.now))
        assert (done.moved, done.dropped) == (1, 1)


def test_a_claim_says_how_many_it_has_swept(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        job = engine.enqueue()
        engine.connection.execute(
            "insert into holdfast.ready (job, ready_at, attempt, priority, segment, queue, kind)"
            " values (4711, now(), 0, 5, 0, 'default', 'mail')"
        )
        [row] = engine.claim(engine.worker())
        assert (row.job, row.picked) == (job, 2)
