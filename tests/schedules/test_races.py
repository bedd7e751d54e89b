"""One fire for each plan, though processes race, die and sleep: with real connections and processes."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import App
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.statement import Statement
from holdfast.schedules.planner import Planner, batches, decide_all
from holdfast.storage.schedules_plans import Fired, due, fire, fire_alike
from holdfast.storage.session import plan_as_written
from schedules.driven_planner import SCHEMA, Books, planner_on

TESTS = Path(__file__).parents[1]
# So long that nothing comes due while a test runs.
SPAN = timedelta(days=1000)
ALIKE = [f"tenant:{n}" for n in range(60)]
ALONE = ["tenant:1"]


class Leader:
    """A leader on a connection of its own, taken through its statements one by one."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        run_on_blocking(connection, plan_as_written())

    def reads(self) -> list[Statement[Fired]]:
        """What is due, decided: the fires that follow from it."""
        rows = run_on_blocking(self.connection, due(SCHEMA))
        moves, refused = decide_all([row for row in rows if row.schedule], rows[0].now.astimezone(UTC))
        assert refused == []
        return [
            fire_alike(SCHEMA, batch[0]) if len(batch[0].scopes) > 1 else fire(SCHEMA, batch)
            for batch in batches(moves)
        ]

    def fires(self, statements: list[Statement[Fired]]) -> int:
        return sum(run_on_blocking(self.connection, statement)[0].fired for statement in statements)


@contextmanager
def leader_on(dsn: str) -> Iterator[Leader]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set lock_timeout = '5s'")
        yield Leader(connection)


@pytest.fixture
def report(app: App) -> Any:
    @app.job
    async def report() -> None: ...

    return report


@pytest.fixture(params=[ALIKE, ALONE], ids=["many scopes", "one scope"])
async def scopes(request: pytest.FixtureRequest, app: App, report: Any, books: Books) -> list[str]:
    """A schedule with one plan due for each of these scopes."""
    await app.schedules.put("rollup", report.call(), every=SPAN, scopes=request.param)
    books.look_back("rollup", SPAN)
    chosen: list[str] = request.param
    return chosen


@pytest.mark.machine  # eight processes
@pytest.mark.timeout(180)
@pytest.mark.requirement("S0.3", "S2.40", "S3.18", "S3.6")
async def test_eight_processes_racing_over_a_thousand_plans_make_a_thousand_jobs(
    app: App, report: Any, dsn: str, books: Books
) -> None:
    await app.schedules.put("many", report.call(), every=SPAN, scopes=[f"tenant:{n}" for n in range(400)])
    few = [f"tenant:{n}" for n in range(200)]
    await app.schedules.put("mixed", report.call(), every=SPAN, scopes=few, jitter="1m")
    await app.schedules.put("past", report.call(), every=SPAN / 10, missed="every", max_per_pass=30)
    for schedule in ("many", "mixed"):
        books.look_back(schedule, SPAN)
    books.look_back("past", 400 * SPAN / 10)
    racers = [
        subprocess.Popen(  # noqa: ASYNC220  # only started here; waited for in threads
            [sys.executable, "-m", "schedules.planner_process", dsn],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert await asyncio.to_thread(racer.stdout.readline) == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        await asyncio.to_thread(racer.communicate, timeout=120)
    assert [racer.returncode for racer in racers] == [0] * 8
    assert books.jobs() == 1_000
    assert books.value("select count(*) from holdfast.plan where job is not null") == 1_000
    assert books.value("select count(distinct job) from holdfast.plan") == 1_000
    assert (
        books.value("select count(*) from holdfast.ready join holdfast.plan using (job)")
        + books.value("select count(*) from holdfast.scheduled join holdfast.plan using (job)")
        == 1_000
    )


@pytest.mark.requirement("S3.18")
@pytest.mark.parametrize("is_pruned", [False, True], ids=["kept", "pruned"])
def test_a_leader_that_slept_between_reading_and_firing_fires_nothing_that_another_has_fired(
    scopes: list[str], dsn: str, books: Books, is_pruned: bool
) -> None:
    with leader_on(dsn) as sleeper, leader_on(dsn) as other:
        read = sleeper.reads()
        assert other.fires(other.reads()) == len(scopes)
        if is_pruned:
            # Without the plans only the compare-and-swap on what was read can know of the fires.
            books.rows("delete from holdfast.plan")
        assert sleeper.fires(read) == 0
        assert sleeper.reads() == []
    assert books.jobs() == len(scopes)


def test_a_leader_that_died_after_reading_leaves_everything_to_the_next(
    scopes: list[str], dsn: str, books: Books
) -> None:
    with leader_on(dsn) as dead:
        dead.reads()
    with leader_on(dsn) as next_one:
        assert next_one.fires(next_one.reads()) == len(scopes)
    assert books.jobs() == len(scopes)


@pytest.mark.parametrize("is_kept", [True, False], ids=["commits", "dies"])
def test_no_planner_waits_for_a_leader_frozen_in_the_middle_of_a_fire(
    scopes: list[str], dsn: str, books: Books, is_kept: bool
) -> None:
    with leader_on(dsn) as frozen, leader_on(dsn) as other:
        read = frozen.reads()
        frozen.connection.execute("begin")
        assert frozen.fires(read) == len(scopes)
        assert other.fires(other.reads()) == 0
        frozen.connection.execute("commit" if is_kept else "rollback")
        assert other.fires(other.reads()) == (0 if is_kept else len(scopes))
    assert books.jobs() == len(scopes)


Verb = Callable[[App, Any], Awaitable[object]]
CHANGES: dict[str, Verb] = {
    "pause": lambda app, _: app.schedules.pause("rollup"),
    "delete": lambda app, _: app.schedules.delete("rollup"),
    "skip": lambda app, _: app.schedules.skip_next("rollup"),
    "other timing": lambda app, report: app.schedules.put(
        "rollup", report.call(), every=2 * SPAN, scopes=ALONE
    ),
    "no scopes": lambda app, report: app.schedules.put("rollup", report.call(), every=SPAN, scopes=[]),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_fire_that_was_planned_before_a_change_is_void(  # noqa: PLR0917  # fixtures
    app: App, report: Any, scopes: list[str], dsn: str, books: Books, change: str
) -> None:
    with leader_on(dsn) as leader:
        read = leader.reads()
        await CHANGES[change](app, report)
        assert leader.fires(read) == 0
    assert books.jobs() == 0


@asynccontextmanager
async def long_transaction(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield connection
        await connection.rollback()


@pytest.mark.parametrize("verb", ["put", "pause", "skip_next", "run_now", "backfill"])
async def test_a_callers_open_transaction_holds_up_its_own_schedule_and_no_other(  # noqa: PLR0917  # fixtures
    app: App, report: Any, scopes: list[str], dsn: str, planner: Planner, books: Books, verb: str
) -> None:
    await app.schedules.put("other", report.call(), every=SPAN)
    books.look_back("other", SPAN)
    now = books.value("select now()")
    verbs: dict[str, Callable[[object], Awaitable[object]]] = {
        "put": lambda conn: app.schedules.put(
            "rollup", report.call(), every=2 * SPAN, scopes=scopes, conn=conn
        ),
        "pause": lambda conn: app.schedules.pause("rollup", conn=conn),
        "skip_next": lambda conn: app.schedules.skip_next("rollup", conn=conn),
        "run_now": lambda conn: app.schedules.run_now("rollup", conn=conn),
        "backfill": lambda conn: app.schedules.backfill("rollup", now - SPAN, now, conn=conn),
    }
    async with long_transaction(dsn) as conn, asyncio.timeout(20):
        await verbs[verb](conn)
        assert (await planner.once()).count == 1
        assert [row[2] for row in books.plans("other")] in (["fired"], ["caught_up"])
        assert books.plans("rollup") == []
    assert (await planner.once()).count == len(scopes)


async def test_a_plan_that_was_backfilled_meanwhile_does_not_fire_again(
    app: App, scopes: list[str], dsn: str, planner: Planner, books: Books
) -> None:
    with leader_on(dsn) as sleeper:
        read = sleeper.reads()
        now = books.value("select now()")
        assert len(await app.schedules.backfill("rollup", now - SPAN, now)) == len(scopes)
        assert sleeper.fires(read) == 0
    assert (await planner.once()).count == 0
    assert books.jobs() == len(scopes)
    assert {row[2] for row in books.plans("rollup")} == {"backfilled"}
    assert (await app.schedules.get("rollup")).last_plan_at == books.plans("rollup")[-1][1]


async def test_plans_that_were_pruned_never_fire_again(
    app: App, scopes: list[str], dsn: str, books: Books
) -> None:
    async with planner_on(dsn) as planner:
        assert (await planner.once()).count == len(scopes)
    books.rows("delete from holdfast.plan")
    books.rows("update holdfast.schedule_scope set next_at = now()")
    async with planner_on(dsn) as restarted:
        assert (await restarted.once()).count == 0
    assert books.plans("rollup") == []
    assert books.jobs() == len(scopes)
