"""A follow-up job inside `ctx.transaction()` that meets an outage is retried, whatever `Retry(on=…)` says."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from holdfast import App, Context, Retry
from holdfast.errors import InvalidInput, JobEnded


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with App(dsn) as app:
        yield app


async def test_an_outage_that_an_enqueue_meets_in_the_block_is_retried(app: App, dsn: str) -> None:
    @app.job(queue="elsewhere")
    async def mail() -> None: ...

    @app.job(retry=Retry(max_attempts=3, backoff="0s", on=ValueError))
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            if ctx.attempt == 1:
                async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
                    await other.execute("select pg_terminate_backend(%s, 5000)", [conn.info.backend_pid])
            await mail.using(conn=conn).enqueue()

    handle = await pay.enqueue()
    async with app.worker(queues={"default": 1}):
        await handle.result("60s")
    assert (await handle.status()).attempt == 2


async def test_an_error_of_the_handlers_own_that_it_swallowed_is_not_taken_for_an_outage(app: App) -> None:
    @app.job(queue="elsewhere")
    async def mail() -> None: ...

    @app.job(retry=Retry(max_attempts=3, backoff="0s", on=ValueError))
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            with contextlib.suppress(psycopg.Error):
                await conn.execute("select 1 / 0")
            await mail.using(conn=conn).enqueue()

    handle = await pay.enqueue()
    async with app.worker(queues={"default": 1}):
        with pytest.raises(JobEnded):
            await handle.result("60s")
    assert (await handle.status()).attempt == 1


async def test_a_pipeline_that_is_left_open_is_refused_and_nothing_is_told_as_done(
    app: App, dsn: str
) -> None:
    @app.job(retry=Retry(max_attempts=1))
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            pipeline: Any = conn.pipeline()
            await pipeline.__aenter__()
            await conn.execute("create table never ()")

    handle = await pay.enqueue()
    async with app.worker():
        with pytest.raises(JobEnded, match="is still open at the end of the block"):
            await handle.result("60s")
    assert InvalidInput.__name__ in str((await handle.status()).error)
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute("select to_regclass('never')").fetchone() == (None,)
