"""What batches ask of the tables: how many jobs are ready, and to complete all runs or none."""

from datetime import timedelta

import psycopg
import pytest

from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.errors import DataRefused
from holdfast.postgres.translate import translate
from holdfast.storage import operators, runs
from holdfast.storage.completions import (
    RunToComplete,
    complete_all,
    complete_all_or_fail,
    is_refused,
    lost_run,
)
from support.engine import SCHEMA, Engine

KEPT = Retention()


def gathered(engine: Engine, **most: int) -> list[tuple[str, int, float]]:
    rows = engine.run(runs.gathered(SCHEMA, queue="default", most=most, now=engine.now))
    return [(row.kind, row.number, row.oldest) for row in rows]


def test_each_kind_is_counted_up_to_its_number_with_the_age_of_the_oldest(engine: Engine) -> None:
    for _ in range(3):
        engine.enqueue(Policy("mail"))
    engine.pass_time(timedelta(seconds=2))
    engine.enqueue(Policy("bill"))
    engine.enqueue(Policy("bill", queue="other"))
    engine.pass_time(timedelta(seconds=1))
    assert gathered(engine, mail=10, bill=10, none=10) == [("mail", 3, 3), ("bill", 1, 1), ("none", 0, 0)]
    assert gathered(engine, mail=2) == [("mail", 2, 3)]
    rows = engine.run(
        runs.gathered(SCHEMA, queue="default", most={"mail": 9, "bill": 9}, window=3, now=engine.now)
    )
    assert [row.number for row in rows] == [3, 0]


def test_jobs_past_their_deadline_and_those_of_a_paused_queue_are_not_counted(engine: Engine) -> None:
    engine.enqueue(Policy("mail"), deadline_in=timedelta(seconds=1))
    engine.enqueue(Policy("mail"))
    assert gathered(engine, mail=10)[0][1] == 2
    engine.pass_time(timedelta(seconds=2))
    assert gathered(engine, mail=10)[0][1] == 1
    engine.run(operators.pause(SCHEMA, queue="default", now=engine.now))
    assert gathered(engine, mail=10)[0][1] == 0


def claimed(engine: Engine, worker: int, number: int) -> list[RunToComplete]:
    for place in range(number):
        engine.enqueue(unique_key=f"key {place}" if place % 2 else None)
    return [
        RunToComplete(
            worker, row.job or 0, row.run, CompleteJob('"done"' if row.run % 2 else None, None), False
        )
        for row in engine.claim(worker)
    ]


def left(engine: Engine) -> tuple[int, int]:
    rows = engine.connection.execute(
        "select (select count(*) from holdfast.lease), (select count(*) from holdfast.ledger)"
    ).fetchone()
    assert rows is not None
    return rows[0], rows[1]


def test_all_runs_are_completed_as_settle_would(engine: Engine) -> None:
    worker = engine.worker()
    done = claimed(engine, worker, 4)
    answer = engine.one(complete_all(SCHEMA, list(reversed(done)), retention=KEPT, now=engine.now))
    assert answer == ("settled", None)
    assert left(engine) == (0, 4)
    assert engine.connection.execute("select count(*) from holdfast.unique_key").fetchone() == (0,)
    assert engine.connection.execute("select sum(runs) from holdfast.tally").fetchone() == (4,)
    written = engine.connection.execute("select run, result from holdfast.ledger order by run").fetchall()
    assert written == [(run.run, "done" if run.run % 2 else None) for run in done]


def test_none_is_completed_if_one_has_lost_its_lease(engine: Engine) -> None:
    worker = engine.worker()
    done = claimed(engine, worker, 3)
    engine.connection.execute("delete from holdfast.lease where run = %s", (done[1].run,))
    with engine.connection.transaction(force_rollback=True):
        answer = engine.one(complete_all(SCHEMA, done, retention=KEPT, now=engine.now))
    assert answer == ("lost", done[1].run)
    for mode in ("force_custom_plan", "force_generic_plan"):
        engine.connection.execute(f"set plan_cache_mode = {mode}")
        with pytest.raises(psycopg.Error) as raised:
            engine.run(complete_all_or_fail(SCHEMA, done, retention=KEPT, now=engine.now))
        error = translate(raised.value, "commit")
        assert isinstance(error, DataRefused)
        assert is_refused(error)
        assert lost_run(error) == done[1].run
    assert left(engine) == (2, 0)
    rest = [done[0], done[2]]
    assert engine.one(complete_all_or_fail(SCHEMA, rest, retention=KEPT, now=engine.now)).answer == "settled"
    assert left(engine) == (0, 2)
