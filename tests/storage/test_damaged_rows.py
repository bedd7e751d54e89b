"""Rows damaged by hand, every column with the extremes of its type, beside sound ones and a real worker: the
sound jobs finish, no chore of the leader stops, and no job ends twice or goes round for ever.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, WorkerOptions
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.storage import chores, workers
from holdfast.worker.lease_keeper import Beats
from support.damaged_rows import Turns, damage, damages, failing_chores, turns
from support.engine import SCHEMA, Engine
from support.waiting import until

__all__ = ["turns"]  # a fixture

MOVING = ["job", "ready", "scheduled", "waiting", "lease", "saved", "unique_key", "ledger", "dead"]
SHARED = ["tally", "counter", "queue", "worker", "leader", "ring", "migration"]
HURRY = WorkerOptions(
    beats=Beats(timedelta(seconds=20), timedelta(seconds=0.2)), leader_lease="500ms", poll="500ms"
)


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

    def fill(self, table: str) -> None:
        """A row for each damage, where a worker keeps none of its own."""
        if table == "queue":
            self.execute("delete from holdfast.queue")
            self.execute("insert into holdfast.queue (name, paused_at) values ('paused', now())")
        elif table in ("tally", "counter"):
            extra = ", 'succeeded', 'default', 'work', 1, interval '1 s'"
            self.execute(
                f"insert into holdfast.{table} (minute, outcome, queue, kind, runs, run_time)"
                f" values (date_trunc('minute', clock_timestamp()){extra}) on conflict do nothing"
            )

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
@pytest.mark.machine  # half a minute each, and longer beside other work
@pytest.mark.timeout(400)
@pytest.mark.parametrize("table", MOVING)
async def test_damaged_rows_stop_no_sound_job_and_no_chore(
    dsn: str, table: str, turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    with Engine.on(dsn, now=None) as engine:
        scene = Scene(engine)
        for column, value in list(damages(engine.connection, table)):
            job = scene.job_for(table)
            damage(engine.connection, table, column, value, "id" if table == "job" else "job", job)
        sound = [scene.job_for(where) for where in ("ready", "scheduled", "waiting", "lease") * 3]
        async with App(dsn) as app:

            @app.job(name="work")
            async def work() -> int:
                return 1

            async with app.worker():
                await until_ended(engine, sound)
                # What a worker or a leader does only now and then.
                engine.hold(chores.rescue_overdue(SCHEMA, luck=0.5, grace=timedelta(), retention=Retention()))
                engine.run(chores.prune(SCHEMA))
                engine.run(chores.fold(SCHEMA))
                engine.run(workers.forget_lost(SCHEMA, keep=timedelta()))
                late = [scene.job_for(where) for where in ("ready", "scheduled")]
                await until_ended(engine, late)
                turns.clear()
                await asyncio.sleep(1)
                assert turns.hot(40) == {}
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
    assert failing_chores(caplog) == []


@pytest.mark.machine  # half a minute each, and longer beside other work
@pytest.mark.timeout(400)
@pytest.mark.parametrize("table", SHARED)
async def test_damage_under_a_running_worker_stops_no_job_and_no_chore(
    dsn: str, table: str, turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    """Each damage is met by a whole round of the leader before the next."""
    with Engine.on(dsn, now=None) as engine:
        scene = Scene(engine)
        async with App(dsn) as app:

            @app.job(name="work")
            async def work() -> int:
                return 1

            async with app.worker(options=HURRY):
                await until_ended(engine, [scene.new()])
                hit = 0
                for column, value in list(damages(engine.connection, table)):
                    scene.fill(table)
                    with engine.connection.transaction():
                        key, row = ("name", "paused") if table == "queue" else (None, None)
                        hit += damage(engine.connection, table, column, value, key, row)
                    engine.run(chores.fold(SCHEMA))
                    engine.run(chores.prune_counters(SCHEMA, keep=timedelta(days=1)))
                    sound = [scene.job_for(where) for where in ("ready", "scheduled")]
                    await until_ended(engine, sound)
                assert hit > 0, "nothing was damaged"
                scene.execute("delete from holdfast.migration where version > 1000")
                await until_ended(engine, [scene.job_for(where) for where in ("lease", "waiting")])
                turns.clear()
                await asyncio.sleep(1)
                assert turns.hot(40) == {}
    assert failing_chores(caplog) == []


async def until_ended(engine: Engine, jobs: list[int]) -> None:
    def left() -> list[Any]:
        return engine.connection.execute(
            "select id, state from holdfast.jobs where id = any(%s) and state <> 'succeeded'", [jobs]
        ).fetchall()

    await until(lambda: not left(), lambda: left(), within=60)  # noqa: PLW0108  # asked when it has failed


def test_a_job_that_ended_and_is_put_back_by_hand_neither_runs_nor_ends_again(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        worker = engine.worker()
        job, other = engine.enqueue(), engine.enqueue()
        for row in engine.claim(worker):
            engine.settle(worker, row, CompleteJob("1", None))
        later = engine.enqueue()
        for table, values in (
            ("ready", "select %s, now(), null, 0, 5, 0, 'default', 'mail'"),
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
        engine.settle(worker, row, CompleteJob("1", None))
        engine.connection.execute(
            "insert into holdfast.lease select * from (select worker, %s, run, ready_at, started_at,"
            " timeout_at, cancel_requested_at, attempt, is_plain, queue, kind, cancel_reason from holdfast.lease) l",  # noqa: E501  # reads as one
            [job],
        )
        engine.pass_time(workers.LEASE * 2)
        engine.run(workers.mark_lost(SCHEMA, now=engine.now))
        rescued = engine.hold(chores.rescue(SCHEMA, luck=0.5, now=engine.now, retention=Retention()))
        assert [(taken.settled.job, taken.settled.outcome) for taken in rescued] == [
            (job, None),
            (other, "retried"),
        ]
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


async def test_the_leader_says_which_lease_it_drops(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    with Engine.on(dsn, now=None) as engine:
        scene = Scene(engine)
        job = scene.job_for("ledger")
        other = scene.job_for("lease")
        scene.execute("update holdfast.lease set job = %s where job = %s", [job, other])
        async with App(dsn) as app:

            @app.job(name="work")
            async def work() -> int:
                return 1

            async with app.worker(options=HURRY):
                await until(lambda: f"dropped the lease of job={job}" in caplog.text)
        assert scene.execute("select count(*) from holdfast.lease").fetchone() == (0,)
