"""Schedules declared in code: written additively when a worker starts, never over what operators set."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from holdfast import App, Context, Retention, Scope
from holdfast.errors import InvalidArguments, InvalidInput
from holdfast.insights.kind_recorder import KindRecorder
from holdfast.postgres.database import Database
from holdfast.schedules import declarer as declared
from holdfast.schedules.declarer import Declarer
from holdfast.schedules.planner import Planner
from holdfast.storage.session import SETTINGS
from holdfast.telemetry.events import Emitter, ScheduleFailed, ScopesAwaited
from schedules.driven_planner import SCHEMA, Books, Heard
from support.waiting import until

# So long that nothing comes due while a test runs.
SPAN = timedelta(days=1000)


@asynccontextmanager
async def declarer_of(app: App, dsn: str, heard: Heard) -> AsyncIterator[Declarer]:
    """What a worker of this app runs beside its jobs."""
    async with Database(dsn, session=SETTINGS) as database, Database(dsn) as handlers:
        yield Declarer(database, handlers, SCHEMA, Emitter(heard.events.append), tuple(app.declared.values()))


async def declare(app: App, dsn: str, heard: Heard) -> None:
    async with declarer_of(app, dsn, heard) as declarer:
        await declarer.once()


REFUSES_BAD = """
create function refuse() returns trigger language plpgsql as
$$ begin raise exception 'no room'; end $$;
create trigger refuse before insert on holdfast.schedule for each row when (new.name = 'bad')
execute function refuse()
"""


def app_with(dsn: str, name: str = "report", **options: Any) -> App:
    app = App(dsn)

    @app.schedule(**({"every": SPAN} | options))
    @app.job(name=name)
    async def report(ctx: Context, number: int = 0) -> None: ...

    return app


@pytest.mark.requirement("S3.8", "S3.11")
async def test_a_worker_writes_its_declarations_at_once_and_deletes_nothing(dsn: str, books: Books) -> None:
    for name in ("one", "two"):
        app = app_with(dsn, name)
        async with app, app.worker():
            await until(partial(books.rows, "select name from holdfast.schedule where name = %s", name))
    assert books.rows("select name from holdfast.schedule order by name") == [("one",), ("two",)]


@pytest.mark.requirement("S3.11")
async def test_what_an_operator_set_survives_a_deploy(dsn: str, books: Books, heard: Heard) -> None:
    async with app_with(dsn) as app:
        await declare(app, dsn, heard)
        await app.schedules.pause("report", note="on purpose")
    async with app_with(dsn, every=2 * SPAN, args={"number": 4}) as app:
        await declare(app, dsn, heard)
        schedule = await app.schedules.get("report")
    assert (schedule.is_paused, schedule.pause_note) == (True, "on purpose")
    assert (schedule.args, schedule.is_declared) == ({"number": 4}, True)


async def test_what_was_due_by_the_old_timing_fires_before_a_deploy_changes_it(
    dsn: str, books: Books, heard: Heard
) -> None:
    await declare(app_with(dsn), dsn, heard)
    books.look_back("report", SPAN)
    await declare(app_with(dsn, every="1h"), dsn, heard)
    assert [row[2] for row in books.plans("report")] == ["caught_up"]
    assert books.plans("report")[0][1].minute == 0


async def test_declaring_the_same_again_changes_nothing(dsn: str, books: Books, heard: Heard) -> None:
    await declare(app_with(dsn), dsn, heard)
    before = books.rows("select version, created_at from holdfast.schedule")
    await declare(app_with(dsn), dsn, heard)
    assert books.rows("select version, created_at from holdfast.schedule") == before


async def test_a_declaration_that_was_removed_is_shown_as_orphaned_until_an_operator_deletes_it(
    dsn: str, books: Books, heard: Heard
) -> None:
    async with app_with(dsn) as app:
        await declare(app, dsn, heard)
        books.rows("update holdfast.schedule set declared_at = now() - interval '4 min'")
        assert not (await app.schedules.get("report")).is_orphaned, "no worker has declared its kinds"
        books.rows(
            "insert into holdfast.worker"
            " (host, pid, version, queues, kinds, slots, started_at, beat_at, expires_at)"
            " values ('h', 1, '0', '{}', '{}', 1, now(), now(), now() + interval '1 h')"
        )
        assert (await app.schedules.get("report")).is_orphaned
        await declare(app, dsn, heard)
        assert not (await app.schedules.get("report")).is_orphaned
        await app.schedules.delete("report")
        async with declarer_of(app, dsn, heard) as declarer:
            declarer._left.clear()
            await declarer.once()
        assert await app.schedules.list() == [], "one that is only said to be still declared stays deleted"


async def test_one_that_cannot_be_written_is_told_and_holds_up_no_other(
    dsn: str, books: Books, heard: Heard
) -> None:
    app = app_with(dsn, "taken")

    @app.schedule(every="1d")
    @app.job
    async def other() -> None: ...

    async with app:
        await app.schedules.put("stored", other.call(), every="1d")
        books.rows("update holdfast.schedule set name = 'taken'")
        async with declarer_of(app, dsn, heard) as declarer:
            await declarer.once()
            await declarer.once()
            assert [event.schedule for event in heard.of(ScheduleFailed)] == ["taken"], "said once"
            assert (await app.schedules.get("other")).is_declared
            assert not (await app.schedules.get("taken")).is_declared
            await app.schedules.delete("taken")
            await declarer.once()
        assert (await app.schedules.get("taken")).is_declared


@pytest.mark.requirement("S3.13")
async def test_without_declarations_and_schedules_nothing_happens(
    app: App, planner: Planner, books: Books
) -> None:
    @app.job
    async def report() -> None: ...

    services = app._worker_maker.extension(Retention()).services(None, None, None)  # type: ignore[arg-type]  # not looked at
    assert [type(service) for service in services] == [KindRecorder], "no Declarer"
    did = await planner.once()
    assert (did.count, did.again_in) == (0, None)


@pytest.mark.requirement("S2.38", "S2.39")
@pytest.mark.parametrize(
    "wrong",
    [
        {"every": "-5m"},
        {"every": "1h", "tz": "Europe/Oslo"},
        {"every": "1h", "missed": "latest", "window": "1h"},
        {"every": "1h", "scopes": "tenant:7"},
        {"every": "1h", "scopes": 7},
        {"every": "1h", "when": "noon"},
    ],
    ids=str,
)
def test_a_wrong_declaration_fails_where_it_stands(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        app_with("postgresql://nowhere", **wrong)


@pytest.mark.parametrize("scopes", ["tenant:7", 7, []], ids=str)
def test_wrong_scopes_are_told_with_their_schedule_and_its_job(scopes: Any) -> None:
    app = App("postgresql://nowhere")
    with pytest.raises(InvalidInput, match='schedule "nightly" of job "report": scopes is'):

        @app.schedule("@daily", name="nightly", scopes=scopes)
        @app.job
        async def report() -> None: ...


@pytest.mark.requirement("S2.38")
@pytest.mark.parametrize("cron", ["0 0 30 2 *", "* * *", "0 25 * * *", "each monday"])
def test_an_impossible_expression_fails_where_it_stands(cron: str) -> None:
    app = App("postgresql://nowhere")
    with pytest.raises(InvalidInput):
        app.schedule(cron)


@pytest.mark.requirement("S2.39")
def test_two_schedules_of_one_job_need_names_and_only_jobs_can_be_scheduled() -> None:
    app = app_with("postgresql://nowhere")
    [kind] = app.declared_kinds.values()
    with pytest.raises(InvalidInput, match="give one of them name="):
        app.schedule("@daily", name="report")(app.job(name="again")(kind.function))
    with pytest.raises(InvalidInput, match="goes above"):
        app.schedule("@daily")(kind.function)  # type: ignore[type-var]  # that is what is wrong


async def test_arguments_that_do_not_fit_the_job_are_an_error_at_start(dsn: str) -> None:
    app = App(dsn)

    @app.schedule(every="1h")
    @app.job
    async def report(number: int) -> None: ...

    async with app:
        with pytest.raises(InvalidArguments, match=r'number.*Schedule "report" gives it args=\{\}'):
            await app.run_worker()


class Source:
    """A source of scopes that the test changes."""

    def __init__(self, *scopes: str | Scope) -> None:
        self.scopes: Iterable[Any] = scopes
        self.error: Exception | None = None

    async def __call__(self) -> Iterable[str | Scope]:
        if self.error:
            raise self.error
        return self.scopes


async def again(app: App, books: Books, dsn: str, heard: Heard) -> None:
    """A minute later, in the same deployment."""
    books.rows("update holdfast.schedule set declared_at = declared_at - interval '1 min'")
    async with declarer_of(app, dsn, heard) as declarer:
        declarer._left.clear()
        await declarer.once()


def firing(books: Books) -> list[str]:
    return [
        scope
        for (scope,) in books.rows(
            "select scope from holdfast.schedule_scope where gone_at is null order by scope"
        )
    ]


async def test_scopes_follow_their_source_and_one_that_comes_back_missed_nothing(
    dsn: str, books: Books, heard: Heard, planner: Planner
) -> None:
    source = Source("a", "b")
    app = app_with(dsn, scopes=source)
    await declare(app, dsn, heard)
    assert firing(books) == ["a", "b"]
    source.scopes = ["b", "c"]
    await again(app, books, dsn, heard)
    assert firing(books) == ["b", "c"]
    books.look_back("report", SPAN)
    assert (await planner.once()).count == 2
    assert {row[0] for row in books.plans("report")} == {"b", "c"}
    source.scopes = ["a", "b", "c"]
    await again(app, books, dsn, heard)
    assert (await planner.once()).count == 0
    assert firing(books) == ["a", "b", "c"]


async def test_a_source_that_fails_leaves_the_scopes_that_were_known(
    dsn: str, books: Books, heard: Heard
) -> None:
    source = Source("a")
    async with app_with(dsn, scopes=source) as app:
        await declare(app, dsn, heard)
        source.error = RuntimeError("no connection to the registry")
        await again(app, books, dsn, heard)
        assert firing(books) == ["a"]
        assert "no connection to the registry" in ((await app.schedules.get("report")).error or "")
        source.error = None
        await again(app, books, dsn, heard)
        assert (await app.schedules.get("report")).error is None
    [event] = heard.of(ScheduleFailed)
    assert (event.schedule, event.scope) == ("report", None)


async def test_a_source_that_does_not_answer_holds_up_no_other_schedule_and_is_told(
    dsn: str, books: Books, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declared, "SLOW", timedelta(milliseconds=10))
    answers = asyncio.Event()

    async def registry() -> list[str]:
        await answers.wait()
        return ["late"]

    app = app_with(dsn, "first", scopes=registry)
    for name, options in {"listed": {"scopes": ["a"]}, "plain": {}}.items():
        app.schedule(every=SPAN, name=name, **options)(app.job(name=name)(lambda: None))  # type: ignore[arg-type]  # a name or none
    async with declarer_of(app, dsn, heard) as declarer, asyncio.TaskGroup() as group:
        group.create_task(declarer.once())
        await until(lambda: books.value("select count(*) from holdfast.schedule") == 2)
        await until(lambda: heard.of(ScopesAwaited))
        assert {event.schedule for event in heard.of(ScopesAwaited)} >= {"first"}
        answers.set()
    assert firing(books) == ["", "a", "late"]


async def test_scopes_bring_their_own_arguments_and_zones_and_a_wrong_one_holds_up_no_other(
    dsn: str, books: Books, heard: Heard, planner: Planner
) -> None:
    scopes = [
        Scope("tokyo", {"number": 1}, "Asia/Tokyo"),
        Scope("mars", zone="Mars/Olympus"),
        Scope("typo", {"nummer": 1}),
        "plain",
        7,
    ]
    app = App(dsn)

    @app.schedule("0 9 * * *", scopes=scopes, args={"number": 9})  # type: ignore[arg-type]  # 7 is what is wrong
    @app.job
    async def report(number: int) -> None: ...

    async with app:
        await declare(app, dsn, heard)
        error = (await app.schedules.get("report")).error or ""
        assert error.startswith("3 of its scopes cannot be used: 'mars': time zone 'Mars/Olympus'")
    books.look_back("report", timedelta(days=1))
    assert (await planner.once()).count == 2
    fired = books.rows(
        "select scope, extract(hour from plan_time at time zone 'UTC')::int, args ->> 'number'"
        "  from holdfast.plan join holdfast.job on id = job order by scope"
    )
    assert fired == [("plain", 9, "9"), ("tokyo", 0, "1")]


async def test_a_query_gives_scopes_with_arguments_and_zones(
    dsn: str, books: Books, heard: Heard, planner: Planner
) -> None:
    books.rows("create table workspace (id bigint, is_active boolean, place text)")
    books.rows("insert into workspace values (1, true, 'Asia/Tokyo'), (2, true, null), (3, false, null)")
    query = """select id, jsonb_build_object('number', id) as args, place as zone
                 from workspace where is_active and 'a%' like '%a%';"""
    await declare(app_with(dsn, scopes=query), dsn, heard)
    assert books.rows("select scope, args, zone from holdfast.schedule_scope order by scope") == [
        ("1", {"number": 1}, "Asia/Tokyo"),
        ("2", {"number": 2}, None),
    ]
    assert heard.of(ScheduleFailed) == []


async def test_thousands_of_scopes_fire_in_one_pass_and_refreshing_them_writes_nothing(
    dsn: str, books: Books, heard: Heard, planner: Planner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    source = Source(*(f"tenant:{n}" for n in range(3_000)))
    app = app_with(dsn, scopes=source)
    await declare(app, dsn, heard)
    books.look_back("report", SPAN)
    assert (await planner.once()).count == 3_000
    before = books.value("select sum(xmin::text::bigint) from holdfast.schedule_scope")
    await again(app, books, dsn, heard)
    assert books.value("select sum(xmin::text::bigint) from holdfast.schedule_scope") == before


@pytest.mark.requirement("S3.12")
async def test_one_that_the_database_refuses_is_told_and_tried_again_while_the_others_go_on(
    dsn: str, books: Books
) -> None:
    """A running worker, and an error that the declaration did not cause."""
    books.rows(REFUSES_BAD)
    heard = Heard()
    app = App(dsn, readers=[heard.events.append])

    @app.schedule(every="1d")
    @app.job
    async def bad() -> None: ...

    @app.schedule(every="100ms")
    @app.job
    async def good() -> None: ...

    async with app, app.worker():
        await until(lambda: books.rows("select 1 from holdfast.plans where state = 'succeeded'"))
        assert books.rows("select name from holdfast.schedule") == [("good",)]
        await until(lambda: heard.of(ScheduleFailed))
        assert {event.schedule for event in heard.of(ScheduleFailed)} == {"bad"}
        books.rows("drop trigger refuse on holdfast.schedule")
        await until(lambda: books.rows("select 1 from holdfast.schedule where name = 'bad'"))
