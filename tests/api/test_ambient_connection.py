"""`app.using(conn=…)`: everything that a block writes goes to one connection, and nothing forgets it."""

import asyncio
import contextvars
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from api.observer import Observer
from borrowed.caller_connections import CALLERS, Caller
from holdfast import OWN_TRANSACTION, App, Context, Flow, Job
from holdfast.errors import InvalidInput, OutsideTransaction, WrongConnection

Connection = psycopg.AsyncConnection[Any]


@pytest.fixture(params=list(CALLERS))
def caller(request: pytest.FixtureRequest, dsn: str) -> Iterator[Caller]:
    with CALLERS[request.param](dsn) as caller:
        yield caller


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield connection
        await connection.rollback()


@pytest.fixture
def mail() -> Job[[int], None]:
    """A job of an App without a database: what does not go to the caller's connection fails."""
    app = App("postgresql://127.0.0.1:1/nowhere")

    @app.job(queue="mail")
    def mail(user: int) -> None: ...

    return mail


def write_inside(mail: Job[[int], None], caller: Caller) -> None:
    """A job, a batch, a job with a key, an event, a cancelled job and a paused queue; no call names conn."""
    app = mail.app

    def write() -> None:
        with app.using(conn=caller.connection):
            mail.enqueue_sync(1)
            mail.using(unique="k", on_conflict="replace").enqueue_sync(2)
            handles = app.enqueue_many_sync([mail.call(3), mail.call(4)])
            app.emit_sync("packed:42", "Ann")
            assert handles[0].cancel_sync() == "cancelled"
            assert app.jobs.cancel_sync([handles[1].id]) == {handles[1].id: "cancelled"}
            app.queues.pause_sync("mail")
            assert [schedule.name for schedule in app.schedules.list_sync()] == []

    async def write_awaited() -> None:
        async with app.using(conn=caller.connection):
            await mail.enqueue(1)
            await mail.using(unique="k", on_conflict="replace").enqueue(2)
            handles = await app.enqueue_many([mail.call(3), mail.call(4)])
            await app.emit("packed:42", "Ann")
            assert await handles[0].cancel() == "cancelled"
            assert await app.jobs.cancel([handles[1].id]) == {handles[1].id: "cancelled"}
            await app.queues.pause("mail")
            assert [schedule.name for schedule in await app.schedules.list()] == []

    if caller.wait is None:
        write()
    elif type(caller).__name__ == "Inside":

        def on(connection: object) -> None:
            with app.using(conn=connection):
                mail.enqueue_sync(1)

        caller.wait(caller.connection.run_sync(on))  # type: ignore[attr-defined]
    else:
        caller.wait(write_awaited())


def test_all_that_a_block_writes_comes_with_the_callers_commit(
    caller: Caller, mail: Job[[int], None], observer: Observer
) -> None:
    write_inside(mail, caller)
    assert observer.count() == 0
    caller.commit()
    assert observer.count() > 0
    if type(caller).__name__ != "Inside":
        assert [job["state"] for job in observer.jobs()] == ["ready", "ready", "cancelled", "cancelled"]
        assert observer.value("select count(*) from holdfast.event") == 1
        assert observer.value("select count(*) from holdfast.queue where paused_at is not null") == 1


def test_all_that_a_block_writes_goes_with_the_callers_rollback(
    caller: Caller, mail: Job[[int], None], observer: Observer
) -> None:
    write_inside(mail, caller)
    caller.rollback()
    assert observer.count() == 0
    assert observer.value("select count(*) from holdfast.event") == 0


async def test_leaving_a_block_restores_what_was_before(
    app: App, connection: Connection, dsn: str, observer: Observer
) -> None:
    @app.job
    def work(name: str) -> None: ...

    async with await psycopg.AsyncConnection.connect(dsn) as inner:
        async with app.using(conn=connection) as given:
            assert given is connection
            await work.enqueue("outer")
            async with app.using(conn=inner):
                await work.enqueue("inner")
            with pytest.raises(ZeroDivisionError), app.using(conn=inner):
                raise ZeroDivisionError
            await work.enqueue("outer")
        await work.enqueue("own")
        assert [job["args"]["name"] for job in observer.jobs()] == ["own"]
        await inner.commit()
    assert [job["args"]["name"] for job in observer.jobs()] == ["inner", "own"]
    await connection.commit()
    assert sorted(job["args"]["name"] for job in observer.jobs()) == ["inner", "outer", "outer", "own"]


async def test_a_conn_that_is_named_wins_over_the_blocks(
    app: App, connection: Connection, dsn: str, observer: Observer
) -> None:
    @app.job
    def work(name: str) -> None: ...

    async with await psycopg.AsyncConnection.connect(dsn) as other, app.using(conn=connection):
        await work.using(conn=other).enqueue("other")
        await other.commit()
        await work.using(conn=OWN_TRANSACTION).enqueue("own")
        await app.enqueue_many([work.call("own")], conn=OWN_TRANSACTION)
        await app.queues.pause("default", conn=OWN_TRANSACTION)
        with app.using(conn=OWN_TRANSACTION):
            await work.enqueue("own")
        await connection.rollback()
    assert [job["args"]["name"] for job in observer.jobs()] == ["other", "own", "own", "own"]
    assert observer.value("select count(*) from holdfast.queue where paused_at is not null") == 1


async def test_a_block_is_of_one_app(app: App, dsn: str, connection: Connection, observer: Observer) -> None:
    async with App(dsn) as other:

        @other.job
        def elsewhere() -> None: ...

        @app.job
        def here() -> None: ...

        async with app.using(conn=connection), other.using(conn=OWN_TRANSACTION):
            await here.enqueue()
            await elsewhere.enqueue()
        await connection.rollback()
    assert [job["kind"] for job in observer.jobs()] == [elsewhere.name]


async def test_a_task_that_is_started_inside_is_refused_also_after_the_block(
    app: App, connection: Connection, observer: Observer
) -> None:
    @app.job
    def work() -> None: ...

    is_over = asyncio.Event()

    async def late() -> None:
        await is_over.wait()
        await work.enqueue()

    async def on_its_own() -> None:
        await work.using(conn=OWN_TRANSACTION).enqueue()

    async def with_a_connection_of_its_own() -> None:
        async with app.using(conn=OWN_TRANSACTION):
            await work.enqueue()

    async with app.using(conn=connection):
        with pytest.raises(WrongConnection, match="another task or thread"):
            await asyncio.create_task(work.enqueue())
        results = await asyncio.gather(work.enqueue(), work.enqueue(), return_exceptions=True)
        assert [type(result) for result in results] == [WrongConnection, WrongConnection]
        with pytest.raises(WrongConnection, match="another task or thread"):
            await asyncio.create_task(app.emit("packed"))
        with pytest.raises(WrongConnection, match="OWN_TRANSACTION"):
            await asyncio.create_task(app.queues.list())
        await asyncio.create_task(on_its_own())
        await asyncio.create_task(with_a_connection_of_its_own())
        task = asyncio.create_task(late())
    is_over.set()
    with pytest.raises(WrongConnection, match="another task or thread"):
        await task
    await work.enqueue()
    assert observer.count() == 3


async def test_a_thread_and_a_callback_that_have_the_blocks_variables_are_refused(
    app: App, connection: Connection, observer: Observer
) -> None:
    @app.job
    def work() -> None: ...

    refused: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def call_back() -> None:
        try:
            app.emit_sync("packed")
        except WrongConnection as error:
            refused.set_result(error)

    async with app.using(conn=connection):
        with pytest.raises(WrongConnection, match="another task or thread"):
            await asyncio.to_thread(work.enqueue_sync)
        asyncio.get_running_loop().call_soon(call_back)
        await asyncio.wait_for(asyncio.shield(refused), 60)
    assert observer.count() == 0


def test_a_thread_that_has_none_of_the_blocks_variables_is_outside(
    blocking_app: App, dsn: str, observer: Observer
) -> None:
    @blocking_app.job
    def work() -> None: ...

    with psycopg.connect(dsn) as connection, blocking_app.using(conn=connection):
        copied = contextvars.copy_context()
        errors: list[BaseException] = []

        def inside() -> None:
            try:
                copied.run(work.enqueue_sync)
            except WrongConnection as error:
                errors.append(error)

        for target in (work.enqueue_sync, inside):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        assert len(errors) == 1
        assert observer.count() == 1
        connection.rollback()


async def test_a_block_that_is_left_in_another_task_is_an_error(app: App, connection: Connection) -> None:
    block = app.using(conn=connection)
    await asyncio.create_task(block.__aenter__())
    with pytest.raises(WrongConnection, match="in the function that enqueues"):
        await block.__aexit__(None, None, None)


async def test_what_is_no_open_connection_is_refused_at_the_door(app: App, dsn: str) -> None:
    with pytest.raises(
        WrongConnection, match=r"your transaction is open on, or OWN_TRANSACTION \(from holdfast"
    ):
        app.using(conn=None)
    with pytest.raises(WrongConnection, match="a DSN has no transaction"):
        app.using(conn=dsn)
    block = app.using(conn=OWN_TRANSACTION)
    with block, pytest.raises(WrongConnection, match="make a new one"):
        block.__enter__()


async def test_a_connection_of_the_other_colour_is_refused_by_the_verb(
    app: App, connection: Connection
) -> None:
    @app.job
    def work() -> None: ...

    with app.using(conn=connection), pytest.raises(WrongConnection, match="call the method without _sync"):
        work.enqueue_sync()


async def test_the_jobs_of_a_worker_that_is_started_inside_are_not_the_blocks(
    app: App, connection: Connection
) -> None:
    @app.job
    async def second() -> None: ...

    @app.job
    async def first() -> int:
        return (await second.enqueue()).id

    async with app.using(conn=connection), app.worker():
        handle = await first.using(conn=OWN_TRANSACTION).enqueue()
        assert await handle.result(timeout="60s") > handle.id


async def test_an_app_that_requires_a_connection_writes_nothing_without_one(
    dsn: str, connection: Connection, observer: Observer
) -> None:
    async with App(dsn, require_conn=True) as app:

        @app.job
        def work() -> None: ...

        for write in (work.enqueue, work.using(delay="1s").enqueue, lambda: app.enqueue_many([work.call()])):
            with pytest.raises(WrongConnection, match="require_conn"):
                await write()
        with pytest.raises(WrongConnection, match="require_conn"):
            await app.emit("packed")
        for write_sync in (work.enqueue_sync, lambda: app.enqueue_many_sync([work.call()])):
            with pytest.raises(WrongConnection, match="require_conn"):
                await asyncio.to_thread(write_sync)
        with pytest.raises(WrongConnection, match="require_conn"):
            await asyncio.to_thread(app.emit_sync, "packed")
        assert observer.count() == 0
        await work.using(conn=connection).enqueue()
        async with app.using(conn=connection):
            await work.enqueue()
        await connection.commit()
        await work.using(conn=OWN_TRANSACTION).enqueue()
        assert [queue.name for queue in await app.queues.list()] == [
            "default"
        ]  # operators ask what they like
    assert observer.count() == 3


def test_require_conn_is_a_yes_or_a_no() -> None:
    with pytest.raises(InvalidInput, match="give True or False"):
        App(require_conn="yes")  # type: ignore[arg-type]


class Warned:
    """Jobs whose blocks write without conn."""

    def __init__(self, app: App) -> None:
        @app.job
        async def follow_up() -> None: ...

        @app.job
        async def in_a_loop(ctx: Context) -> None:
            async with ctx.transaction():
                for _ in range(3):
                    await follow_up.enqueue()  # the line of the loop
                await app.emit("packed")  # the line of the event

        @app.job
        def plain(ctx: Context) -> None:
            with ctx.transaction():
                app.enqueue_many_sync([follow_up.call()])  # the line of the batch

        @app.job
        async def in_tasks(ctx: Context) -> None:  # the handler itself
            async with ctx.transaction():
                await asyncio.gather(follow_up.enqueue(), follow_up.enqueue())

        @app.flow
        async def booking(flow: Flow) -> None:
            async with flow.transaction("book"):
                await follow_up.enqueue()  # the line of the flow

        @app.job
        async def careful(ctx: Context) -> None:
            await follow_up.enqueue()
            async with ctx.transaction() as conn:
                await follow_up.using(conn=conn).enqueue()
                await follow_up.using(conn=OWN_TRANSACTION).enqueue()
                async with app.using(conn=conn):
                    await follow_up.enqueue()

        self.in_a_loop, self.plain, self.in_tasks = in_a_loop, plain, in_tasks
        self.booking, self.careful = booking, careful


def comment_of(file: str, line: int) -> str:
    assert file == __file__
    with open(file, encoding="utf-8") as source:  # noqa: PTH123  # a test's own text
        lines = source.read().splitlines()
    # A decorated function begins at its decorator.
    found = next(text for text in lines[line - 1 :] if "#" in text)
    return found.partition("# ")[2]


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        ("in_a_loop", ["the line of the loop", "the line of the event"]),
        ("plain", ["the line of the batch"]),
        ("in_tasks", ["the handler itself"]),
        ("booking", ["the line of the flow"]),
        ("careful", []),
    ],
)
async def test_what_is_written_without_conn_inside_a_transaction_block_is_warned_of_once_for_each_line(
    app: App, job: str, lines: list[str]
) -> None:
    warned = Warned(app)
    handle = await getattr(warned, job).enqueue()
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()  # as Python has it for programs: once for each line
        async with app.worker():
            await handle.result(timeout="60s")
    found = [each for each in caught if each.category is OutsideTransaction]
    assert [comment_of(each.filename, each.lineno) for each in found] == lines


async def test_another_apps_job_is_nothing_to_the_block(app: App, dsn: str) -> None:
    async with App(dsn, schema="holdfast") as other:

        @other.job(name="elsewhere")
        async def elsewhere() -> None: ...

        @app.job
        async def work(ctx: Context) -> None:
            async with ctx.transaction():
                await elsewhere.enqueue()

        async with app.worker():
            await (await work.enqueue()).result(timeout="60s")
