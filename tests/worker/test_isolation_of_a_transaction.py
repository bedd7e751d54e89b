"""`ctx.transaction(isolation=…)`: at which level its transaction runs."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from holdfast import App, Context, Retry
from holdfast.errors import JobEnded

LEVELS = ["read committed", "repeatable read", "serializable"]
ONCE = Retry(max_attempts=1)


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with App(dsn) as app:
        yield app


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("is_async", [True, False])
async def test_the_block_runs_at_the_level_that_it_names_and_the_next_at_the_usual_one(
    app: App, level: Any, is_async: bool
) -> None:
    seen: list[Any] = []

    async def awaited(ctx: Context) -> None:
        async with ctx.transaction(isolation=None if seen else level) as conn:
            seen.extend(await (await conn.execute("show transaction_isolation")).fetchall())

    def plain(ctx: Context) -> None:
        with ctx.transaction(isolation=None if seen else level) as conn:
            seen.extend(conn.execute("show transaction_isolation").fetchall())

    function: Any = awaited if is_async else plain
    job = app.job(name="look", retry=ONCE)(function)
    async with app.worker():
        await (await job.enqueue()).result("20s")
        await (await job.enqueue()).result("20s")
    assert seen == [(level,), ("read committed",)]


async def test_a_level_set_inside_the_block_is_refused_with_what_to_do(app: App) -> None:
    @app.job(retry=ONCE)
    async def late(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("set transaction isolation level serializable")

    async with app.worker():
        handle = await late.enqueue()
        with pytest.raises(JobEnded):
            await handle.result("20s")
    error = (await handle.status()).error
    assert error is not None
    assert 'ctx.transaction(isolation="…") begins its transaction' in error["traceback"]


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (
            {"isolation": "snapshot"},
            "isolation is one of 'read committed', 'repeatable read', 'serializable'",
        ),
        ({"isolation": "serializable", "is_own": True}, "set the level of your connection"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_written(
    app: App, dsn: str, options: dict[str, Any], advice: str
) -> None:
    @app.job(retry=ONCE)
    async def pay(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as own:
            connection = own if options.pop("is_own", False) else None
            async with ctx.transaction(connection, **options) as conn:
                await conn.execute("create table never ()")

    async with app.worker():
        with pytest.raises(JobEnded, match=advice):
            await (await pay.enqueue()).result("20s")
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute("select to_regclass('never')").fetchone() == (None,)
