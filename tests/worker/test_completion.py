"""`ctx.transaction()`: nothing inside of it can tear the writes from the completion."""

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from holdfast import App, Context, Retry
from holdfast.errors import InvalidInput, JobEnded


@dataclass
class Receipt:
    number: int


SHORT = """\
import sys
from holdfast import App

app = App(sys.argv[1])


@app.job
def note() -> None: ...


note.enqueue_sync()
"""


@pytest.mark.parametrize("verb", ["commit", "rollback"])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_commit_or_rollback_inside_is_refused_and_nothing_is_written(
    dsn: str, verb: str, is_async: bool
) -> None:
    app = App(dsn)
    with psycopg.connect(dsn, autocommit=True) as observer:
        observer.execute("create table paid (job bigint)")

        async def awaited(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await conn.execute("insert into paid values (%s)", [ctx.job.id])
                await getattr(conn, verb)()

        def plain(ctx: Context) -> None:
            with ctx.transaction() as conn:
                conn.execute("insert into paid values (%s)", [ctx.job.id])
                getattr(conn, verb)()

        function: Any = awaited if is_async else plain
        pay = app.job(name="pay", retry=Retry(max_attempts=1))(function)
        async with app, app.worker():
            with pytest.raises(JobEnded, match=f"(?i)explicit {verb}.. forbidden"):
                await (await pay.enqueue()).result("20s")
        assert observer.execute("select count(*) from paid").fetchone() == (0,)


async def test_a_plain_function_that_commits_past_its_timeout_has_raised_nothing(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(dsn)

    @app.job(timeout="50ms", retry=Retry(max_attempts=1))
    def slow(ctx: Context) -> None:
        with ctx.transaction() as conn:
            while not ctx.is_cancelled:
                conn.execute("select pg_sleep(0.01)")

    async with app, app.worker():
        await (await slow.enqueue()).result("20s")
    assert "raised after" not in caplog.text


@pytest.mark.parametrize("is_caught", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_second_block_inside_the_first_is_refused_as_it_would_complete_the_job_without_it(
    dsn: str, is_async: bool, is_caught: bool
) -> None:
    app = App(dsn)
    caught: tuple[type[Exception], ...] = (InvalidInput,) if is_caught else ()
    with psycopg.connect(dsn, autocommit=True) as observer:
        observer.execute("create table paid (what text)")

        async def awaited(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await conn.execute("insert into paid values ('payment')")
                with suppress(*caught):
                    async with ctx.transaction() as other:
                        await other.execute("insert into paid values ('audit')")

        def plain(ctx: Context) -> None:
            with ctx.transaction() as conn:
                conn.execute("insert into paid values ('payment')")
                with suppress(*caught), ctx.transaction() as other:
                    other.execute("insert into paid values ('audit')")

        function: Any = awaited if is_async else plain
        pay = app.job(name="pay", retry=Retry(max_attempts=1))(function)
        async with app, app.worker():
            handle = await pay.enqueue()
            if is_caught:
                await handle.result("20s")
            else:
                with pytest.raises(JobEnded, match=r"InvalidInput.*is open: use its connection"):
                    await handle.result("20s")
        written = observer.execute("select array_agg(what) from paid").fetchone()
        assert written == ((["payment"],) if is_caught else (None,))


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_block_that_was_rolled_back_may_be_followed_by_another(dsn: str, is_async: bool) -> None:
    app = App(dsn)
    with psycopg.connect(dsn, autocommit=True) as observer:
        observer.execute("create table paid (what text)")

        async def awaited(ctx: Context) -> None:
            for what in ("first", "second"):
                with suppress(KeyError):
                    async with ctx.transaction() as conn:
                        await conn.execute("insert into paid values (%s)", [what])
                        if what == "first":
                            raise KeyError(what)

        def plain(ctx: Context) -> None:
            for what in ("first", "second"):
                with suppress(KeyError), ctx.transaction() as conn:
                    conn.execute("insert into paid values (%s)", [what])
                    if what == "first":
                        raise KeyError(what)

        function: Any = awaited if is_async else plain
        pay = app.job(name="pay", retry=Retry(max_attempts=1))(function)
        async with app, app.worker():
            await (await pay.enqueue()).result("20s")
        assert observer.execute("select array_agg(what) from paid").fetchone() == (["second"],)


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_one_handler_chose_for_its_rows_is_not_there_for_the_next(
    dsn: str, is_async: bool
) -> None:
    app = App(dsn)

    async def awaited(ctx: Context, is_first: bool) -> Any:
        async with ctx.transaction() as conn:
            if is_first:
                conn.row_factory, conn.cursor_factory = dict_row, psycopg.AsyncRawCursor
            cursor = await conn.execute("select 1 as one")
            ctx.complete_with([type(cursor).__name__, type(await cursor.fetchone()).__name__])

    def plain(ctx: Context, is_first: bool) -> Any:
        with ctx.transaction() as conn:
            if is_first:
                conn.row_factory, conn.cursor_factory = dict_row, psycopg.RawCursor
            cursor = conn.execute("select 1 as one")
            ctx.complete_with([type(cursor).__name__, type(cursor.fetchone()).__name__])

    choose: Any = app.job(name="choose")(awaited if is_async else plain)
    async with app, app.worker():
        first = await (await choose.enqueue(is_first=True)).result("20s")
        assert first == ["AsyncRawCursor" if is_async else "RawCursor", "dict"]
        for _ in range(10):  # as many as there are connections to meet
            then = await (await choose.enqueue(is_first=False)).result("20s")
            assert then == ["AsyncCursor" if is_async else "Cursor", "tuple"]


@pytest.mark.parametrize("is_raising", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_commit_that_is_sent_as_text_fails_the_job_for_good_as_it_would_write_twice(
    dsn: str, is_async: bool, is_raising: bool
) -> None:
    app = App(dsn)
    with psycopg.connect(dsn, autocommit=True) as observer:
        observer.execute("create table paid (job bigint)")

        async def awaited(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await conn.execute("insert into paid values (%s)", [ctx.job.id])
                await conn.execute("commit")
                if is_raising:
                    raise ConnectionError("the bank is away")

        def plain(ctx: Context) -> None:
            with ctx.transaction() as conn:
                conn.execute("insert into paid values (%s)", [ctx.job.id])
                conn.execute("commit")
                if is_raising:
                    raise ConnectionError("the bank is away")

        function: Any = awaited if is_async else plain
        pay = app.job(name="pay", retry=Retry(max_attempts=3, backoff="0s"))(function)

        @app.job
        async def follow(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await conn.execute("insert into paid values (%s)", [ctx.job.id])

        async with app, app.worker():
            with pytest.raises(JobEnded, match="TransactionEnded"):
                await (await pay.enqueue()).result("20s")
            await (await follow.enqueue()).result("20s")
        assert observer.execute("select array_agg(job order by job) from paid").fetchone() == ([1, 2],)


async def test_what_is_returned_after_the_commit_is_not_kept_and_the_handle_gives_none(dsn: str) -> None:
    app = App(dsn)

    @app.job
    async def pay(ctx: Context) -> str:
        async with ctx.transaction():
            pass
        return "paid"

    async with app, app.worker():
        assert await (await pay.enqueue()).result("20s") is None


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_result_that_is_named_before_the_commit_is_kept(dsn: str, is_async: bool) -> None:
    app = App(dsn)

    async def awaited(ctx: Context) -> Receipt:
        async with ctx.transaction():
            ctx.complete_with(Receipt(7))
        with pytest.raises(InvalidInput, match="completed already"):
            ctx.complete_with(Receipt(8))
        return Receipt(9)

    def plain(ctx: Context) -> Receipt:
        with ctx.transaction():
            ctx.complete_with(Receipt(7))
        return Receipt(9)

    function: Any = awaited if is_async else plain
    pay = app.job(name="pay", retry=Retry(max_attempts=1))(function)
    async with app, app.worker():
        assert await (await pay.enqueue()).result("20s") == Receipt(7)


def test_a_short_script_says_that_it_has_enqueued_before_it_ends(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text(SHORT)
    with psycopg.connect(dsn, autocommit=True) as listening:
        listening.execute('listen "holdfast.ready"')
        done = subprocess.run(
            [sys.executable, "-W", "error", "short.py", dsn],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert [heard.payload for heard in listening.notifies(timeout=10, stop_after=1)] == ["default"]
