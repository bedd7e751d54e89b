"""`app.fsck()`: each damage is made by hand in a real database, found, and mended."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, get_args

import psycopg
import pytest

from holdfast import App, Flow, Retry, WorkerOptions
from holdfast.domain.limits import LimitSpec
from holdfast.domain.retention import Retention
from holdfast.errors import QuestionTimeout
from holdfast.insights.fsck import WORDS, FsckProgress, FsckReport, steps
from holdfast.insights.step_taker import Look, Step, Wait, take_blocking
from holdfast.postgres.conversation import hold_blocking
from holdfast.storage.fsck import CHECKS, DamageCode, Sight
from holdfast.storage.limit_rules import declare
from storage.limits.gates import Gate
from support.engine import SCHEMA, Engine
from support.waiting import until

LEDGER = "insert into holdfast.ledger (job, run, finished_at, outcome, attempt, is_final, queue, kind)"
Sql = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def sql(dsn: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:

        def run(text: str) -> list[tuple[Any, ...]]:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


def found(report: FsckReport) -> dict[str, int]:
    return {damage.code: damage.count for damage in report.damages}


def test_every_damage_has_its_words_and_its_mend() -> None:
    mended = [code for check in CHECKS for code in check.mends]
    assert sorted(mended) == sorted(get_args(DamageCode)) == sorted(WORDS)


async def test_a_database_with_jobs_in_every_state_is_sound(app: App) -> None:
    @app.job(retry=Retry(max_attempts=1))
    async def work(number: int) -> int:
        if number < 0:
            raise ValueError("no")
        return number

    @app.flow
    async def order(flow: Flow) -> None:
        await flow.wait_event("packed", type=str)

    ended = [await work.enqueue(1), await work.using(unique="a").enqueue(2), await work.enqueue(-1)]
    waiting = await order.enqueue()
    async with app.worker():
        await until(lambda: _are_final(app, [handle.id for handle in ended]))
        await until(lambda: _is(app, waiting.id, "waiting"))
    await work.using(unique="b").enqueue(3)
    await work.using(delay="1h").enqueue(4)
    report = await app.fsck()
    assert (report.damages, report.is_sound, report.jobs) == ((), True, 6)


async def _are_final(app: App, jobs: list[int]) -> bool:
    return all([(await app.jobs.show(job)).summary.finished_at is not None for job in jobs])


async def _is(app: App, job: int, state: str) -> bool:
    return (await app.jobs.show(job)).summary.state == state


def an_end(engine: Engine, *, outcome: str = "succeeded") -> int:
    """A job that has ended."""
    job = engine.enqueue()
    engine.connection.execute("delete from holdfast.ready where job = %s", [job])
    engine.connection.execute(
        f"{LEDGER} values (%s, nextval('holdfast.run'), now(), %s::text::holdfast.outcome, 1, true,"
        " 'default', 'mail')",
        [job, outcome],
    )
    return job


def _lost(engine: Engine) -> int:
    job = engine.enqueue()
    engine.connection.execute("delete from holdfast.ready")
    return job


def _in_two_places(engine: Engine) -> int:
    worker, job = engine.worker(), engine.enqueue()
    engine.claim(worker)
    engine.connection.execute(
        "insert into holdfast.scheduled (job, run_at, attempt) values (%s, now(), 0)", [job]
    )
    return job


def _misplaced(engine: Engine) -> int:
    job = engine.enqueue()
    engine.connection.execute("update holdfast.ready set queue = 'elsewhere'")
    return job


def _key_not_held(engine: Engine) -> int:
    job = engine.enqueue(unique_key="a")
    engine.connection.execute("delete from holdfast.unique_key")
    return job


def _stale_key(engine: Engine) -> int:
    job = an_end(engine)
    engine.connection.execute("insert into holdfast.unique_key values ('default', 'a', %s)", [job])
    return job


def _lease_of_no_worker(engine: Engine) -> int:
    worker, job = engine.worker(), engine.enqueue()
    engine.claim(worker)
    engine.connection.execute("delete from holdfast.worker")
    return job


def _waits_for_nothing(engine: Engine) -> int:
    job = engine.enqueue()
    engine.connection.execute("delete from holdfast.ready")
    engine.connection.execute("insert into holdfast.waiting (job, since) values (%s, now())", [job])
    return job


def _ended_twice(engine: Engine) -> int:
    job = an_end(engine)
    engine.connection.execute(
        f"{LEDGER} select job, nextval('holdfast.run'), now(), 'cancelled', 1, true, queue, kind"
        " from holdfast.ledger"
    )
    return job


def _dead_but_not_failed(engine: Engine) -> int:
    job = an_end(engine)
    engine.connection.execute("insert into holdfast.dead (job, run, died_at) values (%s, 1, now())", [job])
    return job


def _ended_but(place: str) -> Callable[[Engine], int]:
    def make(engine: Engine) -> int:
        job = an_end(engine)
        put(engine, place, job)
        return job

    return make


def _of_no_job(table: str) -> Callable[[Engine], int]:
    def make(engine: Engine) -> int:
        put(engine, table, 4711)
        return 4711

    return make


def put(engine: Engine, table: str, job: int) -> None:
    rows = {
        "ready": "insert into holdfast.ready (queue, priority, job, segment, kind, attempt, ready_at)"
        " values ('default', 5, {0}, 0, 'mail', 0, now())",
        "scheduled": "insert into holdfast.scheduled (job, run_at, attempt) values ({0}, now(), 0)",
        "waiting": "insert into holdfast.waiting (job, since) values ({0}, now());"
        " insert into holdfast.wait (job, is_eager, name, key) values ({0}, false, 'a', 'a')",
        "lease": "insert into holdfast.lease (worker, job, run, started_at, timeout_at, attempt)"
        f" values ({engine.worker()}, {{0}}, nextval('holdfast.run'), now(), now(), 1)",
        "saved": "insert into holdfast.saved (job, saved_at) values ({0}, now())",
        "run_log": "insert into holdfast.run_log (job, run, written_at, first, last, lines)"
        " values ({0}, 1, now(), 1, 1, '[]')",
        "checkpoint": "insert into holdfast.checkpoint (job, written_at, is_done, kind, name)"
        " values ({0}, now(), true, 'step', 'charge')",
        "wait": "insert into holdfast.wait (job, is_eager, name, key) values ({0}, false, 'a', 'a')",
        "ledger": f"{LEDGER} values ({{0}}, 1, now(), 'cancelled', 1, true, 'default', 'mail')",
    }
    engine.connection.execute(rows[table].format(job).encode())


def a_group(engine: Engine, *, is_closed: bool) -> int:
    """An hour old, with one member that ended long ago; nobody counted it."""
    job = an_end(engine)
    engine.connection.execute("update holdfast.ledger set finished_at = now() - interval '1 hour'")
    engine.connection.execute(
        "insert into holdfast.job_group (id, created_at, members, closed_at, then_job)"
        " values (4711, now() - interval '2 hours', 1,"
        " case when %s then now() - interval '1 hour' end, 4712)",
        [is_closed],
    )
    engine.connection.execute("insert into holdfast.group_member values (4711, 0, %s)", [job])
    return 4711


def _leftover_members(engine: Engine) -> int:
    engine.connection.execute("insert into holdfast.group_member values (4711, 0, %s)", [an_end(engine)])
    return 4711


DAMAGES: dict[DamageCode, Callable[[Engine], int]] = {
    "group_not_closed": lambda engine: a_group(engine, is_closed=False),
    "group_not_ended": lambda engine: a_group(engine, is_closed=True),
    "leftover_members": _leftover_members,
    "ready_of_no_job": _of_no_job("ready"),
    "ended_but_ready": _ended_but("ready"),
    "misplaced": _misplaced,
    "scheduled_of_no_job": _of_no_job("scheduled"),
    "ended_but_scheduled": _ended_but("scheduled"),
    "waiting_of_no_job": _of_no_job("waiting"),
    "ended_but_waiting": _ended_but("waiting"),
    "lease_of_no_job": _of_no_job("lease"),
    "ended_but_lease": _ended_but("lease"),
    "lease_of_no_worker": _lease_of_no_worker,
    "waits_for_nothing": _waits_for_nothing,
    "lost": _lost,
    "in_two_places": _in_two_places,
    "key_not_held": _key_not_held,
    "stale_key": _stale_key,
    "ended_twice": _ended_twice,
    "no_dead_letter": lambda engine: an_end(engine, outcome="failed"),
    "dead_but_not_failed": _dead_but_not_failed,
    "leftover_saved": _of_no_job("saved"),
    "leftover_checkpoint": _of_no_job("checkpoint"),
    "leftover_wait": _of_no_job("wait"),
    "leftover_ledger": _of_no_job("ledger"),
    "leftover_run_log": _of_no_job("run_log"),
}


@pytest.mark.parametrize(
    "code",
    [code for code in get_args(DamageCode) if code not in ("no_ring", "permits_miscounted", "bad_counter")],
)
async def test_a_damage_is_found_and_mended(app: App, dsn: str, sql: Sql, code: DamageCode) -> None:
    with Engine.on(dsn, now=None) as engine:
        job = DAMAGES[code](engine)
    seen = await app.fsck()
    [damage] = [damage for damage in seen.damages if damage.code == code]
    assert (damage.count, damage.fixed, damage.jobs) == (1, 0, (job,))
    assert not seen.is_sound
    mended = await app.fsck(fix=True, by="ann", reason="a bad restore")
    assert mended.is_sound, mended
    assert (await app.fsck()).damages == ()
    entries = sql("select action, by, reason, counts from holdfast.audit order by id")
    assert (f"fsck {code}", "ann", "a bad restore", {"fixed": 1}) in entries


async def test_a_ring_without_its_row_is_written_again(app: App, sql: Sql) -> None:
    @app.job
    async def work() -> int:
        return 7

    sql("delete from holdfast.ring")
    assert found(await app.fsck()) == {"no_ring": 1}
    assert (await app.fsck(fix=True)).is_sound
    async with app.worker():
        assert await (await work.enqueue()).result("30s") == 7


@pytest.mark.parametrize(
    "damage",
    [
        "update holdfast.lane set held = held + 1 where key = 'acme'",
        "update holdfast.lane set held = held - 1 where key = 'acme'",
        "delete from holdfast.lane where key = 'acme'",
        "insert into holdfast.lane (limit_name, key, held) values ('stripe', 'nobody', 3)",
        "update holdfast.limit_state set held = held + 5",
    ],
)
async def test_miscounted_permits_are_counted_anew(app: App, dsn: str, sql: Sql, damage: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        engine.worker()
        engine.hold(declare(SCHEMA, {"stripe": LimitSpec(per_key=2, total=3)}))
        gate = Gate(engine)
        first, *_ = gate.arrive(["acme"] * 4 + ["bolt"])
        gate.settle_down()
        engine.claim(1, limit=1)
        gate.end(first, "acme")
        engine.connection.execute("delete from holdfast.job where id = %s", [first])
        assert (await app.fsck()).damages == ()
        sql(damage)
        assert found(await app.fsck()) == {"permits_miscounted": 1}
        assert (await app.fsck(fix=True)).is_sound
        assert (await app.fsck()).damages == ()
        gate.settle_down()
        assert (gate.total(), dict(gate.held())) == (3, {"acme": 2, "bolt": 1})
    entries = sql("select action, target from holdfast.audit")
    assert ("fsck permits_miscounted", "permits of limits") in entries


async def test_jobs_that_are_kept_for_no_time_are_no_damage(app: App, sql: Sql) -> None:
    @app.job(keep="0s")
    async def work() -> None: ...

    await app.enqueue_many(work.call() for _ in range(20))
    async with app.worker(options=WorkerOptions(queues={"default": 5}, is_leading_allowed=False)):
        await until(lambda: _are_gone(sql))
        assert sql("select count(*) > 0 from holdfast.ledger") == [(True,)], "nobody leads, nobody prunes"
        assert (await app.fsck()).damages == ()


async def _are_gone(sql: Sql) -> bool:
    return await asyncio.to_thread(sql, "select count(*) from holdfast.job") == [(0,)]


async def test_counters_that_nobody_counted_are_deleted(app: App, sql: Sql) -> None:
    values = "'default', 'mail', 'succeeded'"
    sql(
        "insert into holdfast.counter (minute, queue, kind, outcome, runs, run_time) values"
        f" (now(), {values}, 3, '1s'), (now() - interval '1 minute', {values}, -1, '1s'),"
        f" (now() + interval '1 year', {values}, 1, '1s')"
    )
    assert found(await app.fsck()) == {"bad_counter": 1}
    assert (await app.fsck(fix=True)).is_sound
    assert sql("select runs from holdfast.counter") == [(3,)]


@pytest.mark.parametrize(
    "damage",
    ["lost", "in_two_places", "misplaced", "lease_of_no_worker", "waits_for_nothing", "key_not_held"],
)
async def test_a_job_that_was_mended_runs(app: App, dsn: str, sql: Sql, damage: DamageCode) -> None:
    """The one in two places by its own worker, which is silent here and is rescued in time."""

    @app.job(name="mail")
    async def mail() -> str:
        return "sent"

    with Engine.on(dsn, now=None) as engine:
        job = DAMAGES[damage](engine)
    assert (await app.fsck(fix=True)).is_sound
    sql("update holdfast.worker set expires_at = now() - interval '1 hour'")
    sql("update holdfast.scheduled set run_at = now()")
    async with app.worker():
        await until(lambda: _may_run_now(app, sql, job))


async def _may_run_now(app: App, sql: Sql, job: int) -> bool:
    await asyncio.to_thread(sql, "update holdfast.scheduled set run_at = now()")  # a rescued run backs off
    return (await app.jobs.show(job)).summary.state == "succeeded"


async def test_a_key_that_another_job_holds_stays_with_it(app: App, dsn: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        first = _key_not_held(engine)
        second = engine.enqueue(unique_key="a")
    report = await app.fsck(fix=True)
    assert [(damage.code, damage.fixed, damage.jobs) for damage in report.damages] == [
        ("key_not_held", 0, (first,))
    ]
    assert not report.is_sound
    assert (await app.jobs.show(second)).summary.state == "ready"


async def test_of_two_leases_the_newest_run_stays(app: App, dsn: str, sql: Sql) -> None:
    with Engine.on(dsn, now=None) as engine:
        job = engine.enqueue()
        engine.claim(engine.worker())
        newest = engine.worker()
        engine.connection.execute(
            "insert into holdfast.lease (worker, job, run, started_at, timeout_at, attempt)"
            " select %s, job, nextval('holdfast.run'), now(), now() + interval '1 hour', 1"
            " from holdfast.lease",
            [newest],
        )
    assert found(await app.fsck(fix=True)) == {"in_two_places": 1}
    assert sql(f"select worker from holdfast.lease where job = {job}") == [(newest,)]


async def test_it_goes_on_from_window_to_window(app: App, dsn: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        jobs = [engine.enqueue(unique_key=str(number)) for number in range(25)]
        engine.connection.execute("delete from holdfast.ready where job % 2 = 0")
        engine.connection.execute("delete from holdfast.unique_key where job % 3 = 0")
    told: list[FsckProgress] = []
    walk = steps(
        app.schema,
        fix=False,
        retention=app._worker_maker.keeping,
        by="ann",
        reason=None,
        on_progress=told.append,
        window=4,
    )
    report = await asyncio.to_thread(take_blocking, app._connections, walk)
    await asyncio.to_thread(app.close_sync)
    lost = [job for job in jobs if job % 2 == 0]
    assert report.jobs == 25
    assert {damage.code: damage.jobs for damage in report.damages} == {
        "lost": tuple(lost),
        "key_not_held": tuple(job for job in jobs if job % 3 == 0),
    }
    assert [step.looked for step in told if step.of == "jobs"] == [4, 8, 12, 16, 20, 24, 25, 25]


def held(engine: Engine, step: Step) -> Any:
    assert not isinstance(step, Wait)
    return engine.hold(step.conversation if isinstance(step, Look) else step)


@pytest.mark.parametrize("most", [100, 5])
def test_a_window_that_takes_too_long_is_looked_at_in_parts_unless_these_are_tiny(
    dsn: str, most: int
) -> None:
    with Engine.on(dsn, now=None) as engine:
        job = _lost(engine)
        walk = steps(SCHEMA, fix=False, retention=Retention(), by="ann", reason=None, on_progress=None)
        limits: list[int] = []

        def run(step: Step) -> Any:
            assert isinstance(step, Look)
            look = next(step.conversation)
            match look.params.get("limit"):
                case int(limit):
                    limits.append(limit)
                    if limit > most:
                        raise QuestionTimeout(timedelta(seconds=5), sqlstate="57014")
            return engine.run(look)

        if most == 100:
            assert hold_blocking(walk, run).damages[0].jobs == (job,)
            assert limits[:4] == [5_000, 1_250, 312, 78]
            assert set(limits[4:]) == {78}, "it stays small"
        else:
            with pytest.raises(QuestionTimeout):
                hold_blocking(walk, run)
            assert limits == [5_000, 1_250, 312, 78, 19]


def test_a_job_that_moved_between_two_looks_is_not_damaged(dsn: str) -> None:
    """The first look sees it nowhere, as while its segment of ready is truncated."""
    with Engine.on(dsn, now=None) as engine:
        job = _lost(engine)
        walk = steps(SCHEMA, fix=True, retention=Retention(), by="ann", reason=None, on_progress=None)

        def run(step: Step) -> Any:
            rows = held(engine, step)
            if (job, "lost") in [(row.job, row.damage) for row in rows if isinstance(row, Sight)]:
                put(engine, "ready", job)
            return rows

        report = hold_blocking(walk, run)
        assert report.damages == ()
        assert engine.history(job) == []


async def test_nothing_is_damaged_in_a_fleet_at_work_and_all_jobs_end(app: App, sql: Sql) -> None:
    """Jobs that move are never taken for damaged, and mending disturbs none of them."""

    @app.job
    async def work(number: int) -> None:
        await asyncio.sleep(0)
        if number % 50 == 0:
            raise ValueError("again")

    total = 3_000
    async with app.worker(), app.worker():
        await app.enqueue_many(work.call(number) for number in range(total))
        reports = []
        while sql("select exists (select from holdfast.ready) or exists (select from holdfast.lease)") == [
            (True,)
        ]:
            reports.append(await app.fsck(fix=True))
        assert all(not report.damages for report in reports)
        assert reports
    ended = sql("select count(*) from holdfast.ledger where outcome = 'succeeded'")
    assert ended == [(total - total // 50,)]


async def test_what_a_dump_missed_runs_again_beside_the_workers(app: App, sql: Sql) -> None:
    """The rows of ready are gone, as if restored from a dump that missed them, while a worker runs."""
    ran: list[int] = []

    @app.job
    async def work(number: int) -> None:
        ran.append(number)

    await app.queues.pause("default")
    async with app.worker():
        await app.enqueue_many(work.call(number) for number in range(200))
        sql("delete from holdfast.ready")
        report = await app.fsck(fix=True)
        assert found(report) == {"lost": 200}
        assert len(report.damages[0].jobs) == 20
        await app.queues.resume("default")
        await until(lambda: _none_left(sql))
    assert sorted(ran) == list(range(200))


async def _none_left(sql: Sql) -> bool:
    return await asyncio.to_thread(sql, "select count(*) from holdfast.jobs where state <> 'succeeded'") == [
        (0,)
    ]
