"""Rows damaged by hand, every column with the extremes of its type, beside sound ones and a real worker: the
sound jobs finish, no chore of the leader stops, and no job ends twice or goes round for ever.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg import sql

from holdfast import App
from holdfast.domain.transition import Complete
from holdfast.storage import chores, workers
from support.engine import SCHEMA, Engine

EXTREMES: dict[str, list[str]] = {
    "smallint": ["-32768", "-1", "32767"],
    "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "boolean": ["true", "false"],
    "timestamp with time zone": ["-infinity", "infinity", "4713-01-01 BC", "294276-12-31", "9999-12-31 23:59:59Z"],  # noqa: E501  # reads as one
    "interval": ["-178000000 years", "178000000 years", "0"],
    "text": ["", "nobody knows this", "x" * 2000],
    "json": ["null", "[]", "1", '{"a": 1e999}'],
    "jsonb": ["null", "[]", '"text"', '{"list": [null]}', '{"schedule": 1, "plan_time": "2026-13-99T"}'],
    "ARRAY": ["{}", "{NULL}", "{{a,b},{c,d}}"],
    "USER-DEFINED": ["succeeded", "retried"],
}  # fmt: skip
MOVING = ["job", "ready", "scheduled", "waiting", "lease", "saved", "unique_key", "ledger", "dead"]
SHARED = [
    "tally",
    "counter",
    "queue",
    "worker",
    "leader",
    "ring",
    "event",
    "wait",
    "wakeup",
    "checkpoint",
    "plan",
]


def damages(connection: psycopg.Connection[Any], table: str) -> Iterator[tuple[str, str | None]]:
    columns = connection.execute(
        "select column_name, data_type, is_nullable = 'YES' from information_schema.columns"
        " where table_schema = 'holdfast' and table_name = %s order by ordinal_position",
        [table],
    ).fetchall()
    for column, type_, is_nullable in columns:
        yield from ((column, value) for value in EXTREMES[type_])
        if is_nullable:
            yield column, None


def damage(
    connection: psycopg.Connection[Any], table: str, column: str, value: str | None, job: int | None
) -> None:
    """What a constraint refuses is no damage."""
    key = "id" if table == "job" else "job"
    where = sql.SQL("") if job is None else sql.SQL(" where {} = {}").format(sql.Identifier(key), job)
    change = sql.SQL("update holdfast.{} set {} = {}{}").format(
        sql.Identifier(table), sql.Identifier(column), sql.Literal(value), where
    )
    with (
        suppress(psycopg.DataError, psycopg.IntegrityError, psycopg.errors.GeneratedAlways),
        connection.transaction(),
    ):
        connection.execute(change)


class Scene:
    """Jobs of one kind in every state that a worker or a leader takes up by itself."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.execute = engine.connection.execute

    def new(self, arguments: str = "") -> int:
        [(job,)] = self.execute(f"select holdfast.enqueue('work'{arguments})")
        return int(job)

    def job_for(self, table: str) -> int:
        later = ", run_at => now() + interval '300 ms'"
        if table in ("ready", "unique_key"):
            return self.new(", unique_key => gen_random_uuid()::text" if table == "unique_key" else "")
        if table == "scheduled":
            return self.new(later + ", deadline_at => now() + interval '1 hour'")
        job = self.new()
        if table == "saved":
            self.execute("insert into holdfast.saved values (%s, now(), '{}', '{}')", [job])
        elif table == "waiting":
            self.execute("delete from holdfast.ready where job = %s", [job])
            self.execute(
                "insert into holdfast.waiting values (%s, now(), now(), now() + interval '1 hour')", [job]
            )
        elif table in ("lease", "ledger", "dead"):
            self._begin(job, table)
        return job

    def _begin(self, job: int, table: str) -> None:
        """Claimed by a worker that died; or ended long ago."""
        self.execute("delete from holdfast.ready where job = %s", [job])
        [(worker,)] = self.execute(
            "insert into holdfast.worker (host, pid, version, queues, kinds, slots, started_at, beat_at, expires_at)"  # noqa: E501  # reads as one
            " values ('gone', 1, '0', '{default}', '{work}', 1, now(), now(), now() - interval '1 s') returning id"  # noqa: E501  # reads as one
        )
        if table == "lease":
            self.execute(
                "insert into holdfast.lease (worker, job, run, started_at, timeout_at, attempt, queue, kind)"
                " values (%s, %s, nextval('holdfast.run'), now(), now() + interval '1 hour', 1, 'default', 'work')",  # noqa: E501  # reads as one
                [worker, job],
            )
            return
        self.execute(
            "with gone as (insert into holdfast.ledger (job, run, started_at, finished_at, keep_until, worker, outcome,"  # noqa: E501  # reads as one
            " attempt, is_final, queue, kind) values (%s, nextval('holdfast.run'), now(), now(), now(), %s, 'failed', 1,"  # noqa: E501  # reads as one
            " true, 'default', 'work') returning job, run) insert into holdfast.dead select job, run, now() from gone",  # noqa: E501  # reads as one
            [job, worker],
        )


@pytest.mark.requirement("S3.24")
@pytest.mark.parametrize("table", [*MOVING, *SHARED])
async def test_damaged_rows_stop_no_sound_job_and_no_chore(
    dsn: str, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Engine.on(dsn, now=None) as engine:
        scene = Scene(engine)
        victims = []
        for column, value in list(damages(engine.connection, table)):
            job = scene.job_for(table) if table in MOVING else None
            damage(engine.connection, table, column, value, job)
            victims.append(job)
        sound = [scene.job_for(where) for where in ("ready", "scheduled", "waiting", "lease") * 3]
        async with App(dsn) as app:

            @app.job(name="work")
            async def work() -> int:
                return 1

            async with app.worker():
                await until_ended(engine, sound)
                # What a worker or a leader does only now and then.
                engine.hold(chores.rescue_overdue(SCHEMA, luck=0.5, grace=timedelta()))
                engine.run(chores.prune(SCHEMA))
                engine.run(chores.fold(SCHEMA))
                engine.run(workers.forget_lost(SCHEMA, keep=timedelta()))
                late = [scene.job_for(where) for where in ("ready", "scheduled")]
                await until_ended(engine, late)
        twice = scene.execute(
            "select job, count(*) from holdfast.ledger where is_final and outcome in ('succeeded', 'failed',"
            " 'cancelled', 'expired') group by job having count(*) > 1"
        ).fetchall()
        assert twice == []
        assert (
            scene.execute(
                "select job, count(*) from holdfast.ledger group by job having count(*) > 4"
            ).fetchall()
            == []
        )
    complaints = [record.getMessage() for record in caplog.records if "chore" in record.getMessage()]
    assert [line for line in complaints if "fail" in line] == []


async def until_ended(engine: Engine, jobs: list[int]) -> None:
    deadline = monotonic() + 60
    while True:
        rows = engine.connection.execute(
            "select id, state from holdfast.jobs where id = any(%s) and state <> 'succeeded'", [jobs]
        ).fetchall()
        if not rows:
            return
        assert monotonic() < deadline, rows
        await asyncio.sleep(0.05)


def test_a_job_that_ended_and_is_put_back_by_hand_neither_runs_nor_ends_again(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        worker = engine.worker()
        job, other = engine.enqueue(), engine.enqueue()
        for row in engine.claim(worker):
            engine.settle(worker, row, Complete("1", None))
        later = engine.enqueue()
        for table, values in (
            (
                "ready",
                "(job, attempt, priority, segment, queue, kind) values (%s, 0, 5, 0, 'default', 'mail')",
            ),
            ("scheduled", "(job, run_at, attempt) values (%s, '-infinity', 0)"),
        ):
            engine.connection.execute(f"insert into holdfast.{table} {values}", [job])
        engine.one(chores.promote(SCHEMA, now=engine.now))
        assert [row.job for row in engine.claim(worker)] == [later]
        assert (engine.state(job), engine.state(other)) == ("succeeded", "succeeded")
        assert len(engine.history(job)) == 1
        assert engine.connection.execute("select count(*) from holdfast.ready").fetchone() == (0,)


def test_a_lease_of_a_job_that_ended_is_swept_by_rescue(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        worker = engine.worker()
        job, other = engine.enqueue(), engine.enqueue()
        row, _ = engine.claim(worker)
        engine.settle(worker, row, Complete("1", None))
        engine.connection.execute(
            "insert into holdfast.lease select * from (select worker, %s, run, started_at,"
            " timeout_at, cancel_requested_at, attempt, cancel_reason, queue, kind, is_plain from holdfast.lease) l",  # noqa: E501  # reads as one
            [job],
        )
        engine.pass_time(workers.LEASE * 2)
        engine.run(workers.mark_lost(SCHEMA, now=engine.now))
        rescued = engine.hold(chores.rescue(SCHEMA, luck=0.5, now=engine.now))
        assert [(taken.settled.job, taken.settled.outcome) for taken in rescued] == [(other, "retried")]
        assert len(engine.history(job)) == 1
        assert engine.connection.execute("select count(*) from holdfast.lease").fetchone() == (0,)


def test_a_running_job_whose_lease_was_deleted_is_shown_as_lost_and_can_be_put_back(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        worker, job = engine.worker(), engine.enqueue()
        engine.claim(worker)
        engine.connection.execute("delete from holdfast.lease")
        assert engine.state(job) == "lost"
        engine.connection.execute(
            "insert into holdfast.scheduled (job, run_at, attempt) values (%s, '2025-01-01Z', 0)", [job]
        )
        engine.one(chores.promote(SCHEMA, now=engine.now))
        assert [row.job for row in engine.claim(worker)] == [job]


def test_a_leader_row_that_never_runs_out_is_taken_over(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        first, second = engine.worker(), engine.worker()
        assert engine.run(workers.lead(SCHEMA, worker=first, now=engine.now))
        assert not engine.run(workers.lead(SCHEMA, worker=second, now=engine.now))
        engine.connection.execute(
            "update holdfast.leader set expires_at = 'infinity', term = 9223372036854775807"
        )
        assert engine.run(workers.lead(SCHEMA, worker=second, now=engine.now))


def test_a_worker_whose_lease_never_runs_out_is_marked_lost(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        worker = engine.worker()
        engine.connection.execute("update holdfast.worker set expires_at = 'infinity'")
        assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == [worker]
