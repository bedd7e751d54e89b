"""An App is cheap to make, opens at its first use, and can be closed and used again."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from api.observer import Observer
from holdfast import App, Flow
from holdfast.errors import (
    ConnectionFailed,
    InvalidConnectionString,
    InvalidInput,
    InvalidSchemaName,
    SchemaOutdated,
    UnsupportedScheme,
)
from holdfast.kind_options import FlowOptions
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged
from holdfast.worker.job_kind import HOOK_NAMES
from support.blocking_in_a_loop import both_colours

BOTH_CHOICES = r'HOLDFAST_DSN .*App\("embedded"\)'


@both_colours
async def test_without_a_database_the_first_use_names_both_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DSN", raising=False)
    app = App()

    @app.job
    def work() -> None: ...

    app.check()
    call = work.call()
    with pytest.raises(InvalidConnectionString, match=BOTH_CHOICES):
        await app.enqueue_many([call])
    with pytest.raises(InvalidConnectionString, match=BOTH_CHOICES):
        work.enqueue_sync()
    with pytest.raises(InvalidConnectionString, match=BOTH_CHOICES):
        async with app.worker():
            pytest.fail("a worker has started without a database")


def test_without_a_text_the_environment_names_the_database(
    dsn: str, monkeypatch: pytest.MonkeyPatch, observer: Observer
) -> None:
    app = App()

    @app.job
    def work() -> None: ...

    monkeypatch.setenv("HOLDFAST_DSN", dsn)  # read at the first use, so a module may make its App first
    work.enqueue_sync()
    app.close_sync()
    assert observer.count() == 1


def test_what_is_given_wins_over_the_environment(
    dsn: str, monkeypatch: pytest.MonkeyPatch, observer: Observer
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", "postgresql://127.0.0.1:1/nowhere")
    app = App(dsn)

    @app.job
    def work() -> None: ...

    work.enqueue_sync()
    app.close_sync()
    assert observer.count() == 1


@pytest.mark.requirement("S2.1")
@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ("", InvalidConnectionString, r"is empty: use postgresql://user@host/database"),
        (" ", InvalidConnectionString, "is empty"),
        ("mysql://mia:secret@host/shop", UnsupportedScheme, '"mysql://" is not Postgres: use postgresql://'),
        (
            "postgresql+asyncpg://mia:secret@host/shop",
            UnsupportedScheme,
            r"leave \+asyncpg out: use postgresql://",
        ),
        ("=", InvalidConnectionString, "cannot be read"),
        (
            "host=h pool_max_conns=0",
            InvalidConnectionString,
            "pool_max_conns takes a whole number, 1 or more",
        ),
        (5, InvalidConnectionString, "of type int: give text such as postgresql://user@host/database"),
        (b"postgresql://mia:secret@host/shop", InvalidConnectionString, "of type bytes: give text"),
        (Path("secret"), InvalidConnectionString, "of type PosixPath: give text"),
        (False, InvalidConnectionString, "of type bool: give text"),
    ],
)
def test_what_is_no_dsn_is_an_error_when_the_app_is_made(
    given: Any, error: type[InvalidConnectionString], says: str
) -> None:
    with pytest.raises(error, match=says) as refused:
        App(given)
    with pytest.raises(error, match=says):
        App(dsn=given)
    assert "secret" not in str(refused.value)


@both_colours
async def test_a_variable_that_holds_no_dsn_is_an_error_at_the_first_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", "")
    app = App()

    @app.job
    def work() -> None: ...

    with pytest.raises(InvalidConnectionString, match="is empty"):
        await work.enqueue()
    with pytest.raises(InvalidConnectionString, match="is empty"):
        work.enqueue_sync()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"schema": 5}, "schema is 5: give its name, such as"),
        ({"schema": None}, "schema is None"),
        ({"schema": b"holdfast"}, "schema is b'holdfast'"),
        ({"pool": "x"}, r"pool is 'x': give PoolOptions\(pool_max_conns=20\)"),
        ({"pool": {"pool_max_conns": 20}}, "pool is .*: give PoolOptions"),
        ({"pool": 0}, "pool is 0: give PoolOptions"),
        ({"readers": 5}, "readers is 5: give a list of functions"),
        ({"readers": print}, "readers is .*: give a list of functions"),
        ({"readers": "me"}, "readers is 'me': give a list of functions"),
        ({"readers": [print, 5]}, "readers is .* 5.*: give a list of functions"),
        ({"readers": None}, "readers is None"),
        ({"on_start": "x"}, "on_start is 'x': give a function that takes the context"),
        ({"on_dead": 5}, "on_dead is 5: give a function that takes the context and the error"),
    ],
)
def test_an_app_with_bad_options_cannot_be_made(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        App("embedded", **options)


def test_a_hook_that_cannot_be_called_is_refused_where_the_job_is_declared() -> None:
    untyped: Any = App("embedded")
    with pytest.raises(InvalidInput, match="on_failure is 'mail me'"):
        untyped.job(on_failure="mail me")


@pytest.mark.parametrize("name", HOOK_NAMES)
def test_every_hook_can_be_given_to_the_app_to_a_job_and_to_a_flow(name: str) -> None:
    def of_the_app(*_: object) -> None: ...
    def of_the_kind(*_: object) -> None: ...
    def work() -> None: ...
    async def flow(flow: Flow) -> None: ...

    given: dict[str, Any] = {name: of_the_app}
    app: Any = App("embedded", **given)
    app.job(name="general")(work)
    app.job(name="own", **{name: of_the_kind})(work)
    app.flow(name="flow", **{name: of_the_kind})(flow)
    found = {kind.name: getattr(kind.hooks, name) for kind in app.declared_kinds.values()}
    assert found == {"general": of_the_app, "own": of_the_kind, "flow": of_the_kind}
    assert name in FlowOptions.__annotations__


def test_nothing_of_an_app_shows_its_password() -> None:
    app = App("postgresql://mia:open-sesame@127.0.0.1:1/shop?connect_timeout=2")

    @app.job
    def work() -> None: ...

    with pytest.raises(ConnectionFailed) as failed:
        work.enqueue_sync()
    assert "sesame" not in f"{app!r} {vars(app)!r} {failed.value!r} {work!r}"


def test_embedded_is_a_private_server_in_this_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = App("embedded")

    @app.job
    def work() -> None: ...

    assert not (tmp_path / ".holdfast").exists()
    job = work.enqueue_sync()
    assert (tmp_path / ".holdfast").is_dir()
    assert job.status_sync().state == "ready"
    app.close_sync()


async def test_embedded_takes_a_path_and_keeps_its_jobs_when_it_is_closed(tmp_path: Path) -> None:
    place = tmp_path / "somewhere"
    app = App(f"embedded:{place}")

    @app.job
    async def work() -> str:
        return "done"

    async with app:
        job = await work.enqueue()
    assert place.is_dir()
    assert not (place / "data" / "postmaster.pid").exists()
    async with app, app.worker():  # the same App starts its server again
        assert await job.result(timeout="60s") == "done"


@pytest.mark.requirement("S2.6")
@both_colours
async def test_a_database_without_our_schema_says_what_to_run(dsn: str, observer: Observer) -> None:
    observer.connection.execute("drop schema holdfast cascade")
    app = App(dsn)

    @app.job
    def work() -> None: ...

    with pytest.raises(SchemaOutdated, match="holdfast migrate"):
        await work.enqueue()
    with pytest.raises(SchemaOutdated, match="holdfast migrate"):
        work.enqueue_sync()
    with pytest.raises(SchemaOutdated, match="holdfast migrate"):
        async with app.worker():
            pytest.fail("a worker has started without a schema")
    await asyncio.to_thread(observer.until_alone)


@both_colours
async def test_an_app_that_was_refused_works_when_the_reason_is_gone(dsn: str, observer: Observer) -> None:
    app = App(dsn, schema="later")

    @app.job
    def work() -> None: ...

    with pytest.raises(SchemaOutdated, match="later"):
        await work.enqueue()
    with pytest.raises(SchemaOutdated, match="later"):
        work.enqueue_sync()
    with psycopg.connect(dsn) as connection:
        migrate(connection, Schema("later"), packaged())
    async with app:
        await work.enqueue()
        work.enqueue_sync()
    assert observer.value("select count(*) from later.jobs") == 2


@both_colours
async def test_a_server_that_is_away_is_an_error_of_its_own() -> None:
    app = App("postgresql://127.0.0.1:1/shop?connect_timeout=2")

    @app.job
    def work() -> None: ...

    with pytest.raises(ConnectionFailed):
        await work.enqueue()
    with pytest.raises(ConnectionFailed):
        work.enqueue_sync()


async def test_two_apps_in_one_process_keep_apart(dsn: str, app: App, observer: Observer) -> None:
    with psycopg.connect(dsn) as connection:
        migrate(connection, Schema("other"), packaged())

    async with App(dsn, schema="other") as other:

        @app.job(name="work")
        async def here() -> str:
            return "here"

        @other.job(name="work")
        async def there() -> str:
            return "there"

        async with app.worker(), other.worker():
            jobs = await here.enqueue(), await there.enqueue()
            assert [await job.result(timeout="60s") for job in jobs] == ["here", "there"]
    assert observer.count() == observer.value("select count(*) from other.jobs") == 1


@pytest.mark.parametrize("name", ["", "Shop", "pg_jobs", "a" * 41, 'x"; drop schema public; --'])
def test_a_bad_schema_name_is_refused_at_once(name: str) -> None:
    with pytest.raises(InvalidSchemaName):
        App("embedded", schema=name)


def test_one_app_serves_one_event_loop_after_another(dsn: str, observer: Observer) -> None:
    app = App(dsn)

    @app.job
    def work() -> None: ...

    async def once() -> int:
        async with app:
            return (await work.enqueue()).id

    ids = [asyncio.run(once()), asyncio.run(once())]
    assert [job["id"] for job in observer.jobs()] == ids


def test_a_loop_that_ended_without_closing_harms_no_later_loop(dsn: str, observer: Observer) -> None:
    app = App(dsn)

    @app.job
    def work() -> None: ...

    async def once() -> int:
        return (await work.enqueue()).id

    ids = [asyncio.run(once()), asyncio.run(once())]
    asyncio.run(app.close())
    assert [job["id"] for job in observer.jobs()] == ids


def test_threads_share_one_app(blocking_app: App, observer: Observer) -> None:
    @blocking_app.job
    def work(number: int) -> None: ...

    with ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(work.enqueue_sync, range(40)))
    assert len({job.id for job in jobs}) == observer.count() == 40
    assert {job["args"]["number"] for job in observer.jobs()} == set(range(40))


def test_threads_with_event_loops_share_one_app(dsn: str, observer: Observer) -> None:
    app = App(dsn)

    @app.job
    def work(number: int) -> None: ...

    async def once(number: int) -> None:
        try:
            await work.enqueue(number)
        finally:
            await app.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: asyncio.run(once(number)), range(12)))
    assert observer.count() == 12


async def test_a_loop_and_its_threads_share_one_app(app: App, observer: Observer) -> None:
    @app.job
    def work(number: int) -> None: ...

    await asyncio.gather(
        *(work.enqueue(number) for number in range(20)),
        *(asyncio.to_thread(work.enqueue_sync, number) for number in range(20, 40)),
    )
    assert observer.count() == 40


async def test_a_closed_app_opens_again(app: App, observer: Observer) -> None:
    @app.job
    def work() -> None: ...

    for _ in range(2):
        await app.close()
        await app.close()
        await work.enqueue()
        await asyncio.to_thread(work.enqueue_sync)
    assert observer.count() == 4


async def test_a_block_closes_what_was_opened_in_it(dsn: str, observer: Observer) -> None:
    async with App(dsn) as app:

        @app.job
        def work() -> None: ...

        await work.enqueue()
        await asyncio.to_thread(work.enqueue_sync)
        assert observer.sessions()
    await asyncio.to_thread(observer.until_alone)
