"""The completion inside a handler's transaction: for one run what settle does, row for row."""

from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.errors import DataRefused
from holdfast.postgres.statement import Statement
from holdfast.postgres.translate import translate
from holdfast.storage import chores, operators, runs, workers
from holdfast.storage.completions import RunToComplete, complete_one, complete_one_or_fail, is_refused
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA, Engine

KEPT = Retention(succeeded=timedelta(hours=5))
NO_RESULT = CompleteJob(None, "completed_in_transaction")
# Everything that the end of a run may touch; numbers of a sequence differ from try to try.
TOUCHED = {
    "lease": "select * from holdfast.lease order by run",
    "ledger": "select * from holdfast.ledger order by job, run",
    "job": "select id from holdfast.job order by id",
    "saved": "select job from holdfast.saved order by job",
    "unique_key": "select * from holdfast.unique_key order by job",
    "wakeup": "select job, child, key from holdfast.wakeup order by job, child",
    "tally": "select minute, outcome, queue, kind, runs, run_time from holdfast.tally order by minute, kind",
    "ready": "select job from holdfast.ready order by job",
    "scheduled": "select job from holdfast.scheduled order by job",
    "dead": "select job from holdfast.dead order by job",
}


def to_complete(worker: int, row: runs.ClaimRow) -> RunToComplete:
    assert row.job is not None
    return RunToComplete(worker, row.job, row.run, NO_RESULT, row.is_plain is True)


def complete(engine: Engine, worker: int, row: runs.ClaimRow) -> str:
    return engine.one(complete_one(SCHEMA, to_complete(worker, row), retention=KEPT, now=engine.now))


def after(engine: Engine, statement: Statement[Any]) -> dict[str, Any]:
    """What the tables hold when it has run, and that is all: it is rolled back."""
    with engine.connection.transaction(force_rollback=True):
        engine.run(statement)
        return {name: engine.connection.execute(query).fetchall() for name, query in TOUCHED.items()}


class Situation(NamedTuple):
    """In which runs differ when they end."""

    keep: timedelta | None
    unique_key: str | None
    is_child: bool
    is_adopted: bool
    is_saved: bool
    is_cancelled: bool
    is_late: bool
    is_job_gone: bool
    result: str | None


SITUATIONS = st.builds(
    Situation,
    keep=st.sampled_from([None, timedelta(), timedelta(days=2)]),
    unique_key=st.sampled_from([None, "invoice 7"]),
    result=st.sampled_from([None, '{"paid": 3}']),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(when=SITUATIONS)
def test_it_leaves_the_same_rows_as_settle(engine: Engine, when: Situation) -> None:
    with engine.connection.transaction(force_rollback=True):
        worker, deadline = engine.worker(), engine.now + timedelta(minutes=1) if engine.now else None
        job = engine.enqueue(Policy("mail", keep=when.keep), unique_key=when.unique_key, deadline_at=deadline)
        run_sql = engine.connection.execute
        if when.is_child:
            run_sql("update holdfast.job set parent = 99 where id = %s", [job])
        [row] = engine.claim(worker)
        if when.is_adopted:
            run_sql("update holdfast.job set parent = coalesce(parent, 98) where id = %s", [job])
            run_sql(
                "insert into holdfast.checkpoint (job, child, written_at, is_done, kind, name)"
                " values (98, %s, %s, false, 'call', 'mail')",
                [job, engine.now],
            )
        if when.is_saved:
            engine.run(runs.save(SCHEMA, [runs.Saving(worker, job, row.run, state="1")], now=engine.now))
        if when.is_cancelled:
            run_sql("update holdfast.lease set cancel_requested_at = %s", [engine.now])
        if when.is_job_gone:
            run_sql("delete from holdfast.job where id = %s", [job])
        ended_at = engine.now + timedelta(seconds=90 if when.is_late else 7) if engine.now else None
        done = CompleteJob(when.result, None if when.result else "completed_in_transaction")
        settled = runs.settle(
            SCHEMA, [runs.Settlement(worker, job, row.run, done)], retention=KEPT, now=ended_at
        )
        expected = after(engine, settled)
        # A job that a flow awaits, and whose row was deleted by hand, is settled by its lease alone.
        is_torn = when.is_adopted and when.is_job_gone
        for is_plain in {row.is_plain is True and not is_torn, False}:
            one = RunToComplete(worker, job, row.run, done, is_plain)
            assert after(engine, complete_one(SCHEMA, one, retention=KEPT, now=ended_at)) == expected


def test_a_run_is_completed_once(engine: Engine) -> None:
    worker, job = engine.worker(), engine.enqueue()
    [row] = engine.claim(worker)
    assert complete(engine, worker, row) == "settled"
    assert complete(engine, worker, row) == "already"
    assert engine.state(job) == "succeeded"
    [entry] = engine.history(job)
    assert (entry.outcome, entry.run) == ("succeeded", row.run)


def test_the_claim_says_whether_anything_else_ends_with_the_job(engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue()
    engine.enqueue(unique_key="invoice 7")
    engine.enqueue(Policy("mail", keep=timedelta()))
    assert [row.is_plain for row in engine.claim(worker)] == [True, False, False]


@pytest.mark.parametrize("of", ["another worker", "another run", "another job"])
def test_each_part_of_the_fence_refuses(engine: Engine, of: str) -> None:
    worker, other = engine.worker(), engine.worker()
    engine.enqueue()
    engine.enqueue()
    row, another = engine.claim(worker)
    run = to_complete(worker, row)
    wrong = {
        "another worker": RunToComplete(other, run.job, run.run, NO_RESULT, is_plain=True),
        "another run": RunToComplete(worker, run.job, another.run, NO_RESULT, is_plain=True),
        "another job": RunToComplete(worker, another.job or 0, run.run, NO_RESULT, is_plain=True),
    }[of]
    assert engine.run(complete_one(SCHEMA, wrong, retention=KEPT, now=engine.now)) == ["lost"]
    assert engine.connection.execute("select count(*) from holdfast.lease").fetchone() == (2,)


def test_a_run_that_was_rescued_is_lost(engine: Engine) -> None:
    worker, job = engine.worker(), engine.enqueue()
    [row] = engine.claim(worker)
    engine.pass_time(timedelta(minutes=5))
    engine.run(workers.mark_lost(SCHEMA, now=engine.now))
    engine.hold(chores.rescue(SCHEMA, luck=0.5, limit=10, retention=KEPT, now=engine.now))
    assert complete(engine, worker, row) == "lost"
    assert engine.state(job) == "scheduled"


def test_a_success_wins_over_a_cancel_request(engine: Engine) -> None:
    worker, job = engine.worker(), engine.enqueue()
    [row] = engine.claim(worker)
    engine.hold(operators.cancel(SCHEMA, [job], retention=KEPT, now=engine.now))
    assert complete(engine, worker, row) == "settled"
    assert engine.state(job) == "succeeded"


def test_a_run_that_ends_elsewhere_while_its_lease_is_waited_for_is_moving(dsn: str) -> None:
    with Sessions.on(dsn) as sessions:
        one, two = sessions.open(), sessions.open()
        worker, job = one.worker(), one.enqueue()
        [row] = one.claim(worker)
        one.begin()
        one.settle(worker, row, CompleteJob(None, None))
        second = sessions.start(two, lambda: complete(two, worker, row)).waits_for(one)
        one.commit()
        assert second.answer() == "moving"
        assert complete(two, worker, row) == "already"
        assert len(one.history(job)) == 1


@pytest.mark.parametrize("is_plain", [True, False])
def test_one_whose_commit_is_sent_along_fails_unless_it_is_settled(engine: Engine, is_plain: bool) -> None:
    worker, job = engine.worker(), engine.enqueue()
    [row] = engine.claim(worker)
    run = RunToComplete(worker, job, row.run, NO_RESULT, is_plain)
    late = RunToComplete(worker, job, row.run + 1, NO_RESULT, is_plain)
    for mode in ("force_custom_plan", "force_generic_plan"):
        engine.connection.execute(f"set plan_cache_mode = {mode}")
        with pytest.raises(psycopg.Error) as raised:
            engine.run(complete_one_or_fail(SCHEMA, late, retention=KEPT, now=engine.now))
        error = translate(raised.value, "commit")
        assert isinstance(error, DataRefused)
        assert is_refused(error)
    assert engine.state(job) == "running"
    assert engine.run(complete_one_or_fail(SCHEMA, run, retention=KEPT, now=engine.now)) == ["settled"]


def test_other_errors_are_not_taken_for_a_lost_lease() -> None:
    assert not is_refused(DataRefused('commit: invalid input syntax for type integer: "x"', sqlstate="22P02"))
    assert not is_refused(DataRefused("this run of a Holdfast job has lost its lease", sqlstate="23505"))
