"""`ctx.state` for the next run, and `ctx.progress` for readers."""

import asyncio

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import working
from holdfast import App, Context, Retry, Snooze
from support.waiting import until


@pytest.mark.requirement("S1.24", "S4.20")
async def test_state_survives_retries_snoozes_and_releases(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        seen: list[list[str]] = []
        waits = asyncio.Event()

        @app.job(retry=Retry(max_attempts=2, backoff="0s"))
        async def build(ctx: Context) -> list[str]:
            seen.append(list(ctx.state.get("steps", [])))
            steps: list[str] = ctx.state.setdefault("steps", [])
            steps.append(("retry", "snooze", "release", "end")[len(steps)])
            match steps[-1]:
                case "retry":
                    raise RuntimeError("again")
                case "snooze":
                    raise Snooze("10ms")
                case "release":
                    waits.set()
                    await asyncio.Event().wait()
            return steps

        async with working(app, grace=0.05):
            handle = await build.enqueue()
            await waits.wait()
        async with working(app):
            assert await handle.result("10s") == ["retry", "snooze", "release", "end"]
    assert books.outcomes(handle.id) == ["retried", "snoozed", "released", "succeeded"]
    assert seen == [[], ["retry"], ["retry", "snooze"], ["retry", "snooze", "release"]]


async def test_progress_is_seen_while_the_job_runs_and_afterwards(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        may_end = asyncio.Event()

        @app.job
        async def build(ctx: Context) -> None:
            ctx.progress(0.25, "began")
            ctx.progress(0.5, "half", shelf="ø\0")
            await may_end.wait()

        async with working(app):
            handle = await build.enqueue()
            await until(lambda: books.run("select progress from holdfast.saved"), "it is written")
            status = await handle.status()
            assert (status.state, status.attempt) == ("running", 1)
            assert status.progress == {"value": 0.5, "note": "half", "shelf": "ø\N{REPLACEMENT CHARACTER}"}
            may_end.set()
            await handle.result("10s")
        assert (await handle.status()).progress == status.progress


async def test_a_run_that_was_taken_away_cannot_report_progress(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        begun, taken, said = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @app.job(retry=Retry(max_attempts=2, backoff="0s"))
        async def build(ctx: Context) -> None:
            if ctx.attempt == 2:
                ctx.progress(1, "second")
                return
            begun.set()
            await taken.wait()
            ctx.progress(0.5, "first")
            said.set()
            await asyncio.Event().wait()

        async with working(app, lease=60, beat=20, grace=0.05, is_leading_allowed=False) as first:

            def has_been_taken_over() -> bool:
                # More than once: its first beat may still be under way.
                books.run("update holdfast.worker set expires_at = now() where id = %s", first.id)
                return books.finished() == 1

            handle = await build.enqueue()
            await begun.wait()
            async with working(app):
                await until(has_been_taken_over, "another worker has run it")
                taken.set()
                await said.wait()
        assert (await handle.status()).progress == {"value": 1, "note": "second"}
