"""Hooks: called when something happens to a job, never able to harm it."""

import asyncio
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import NO_MORE, ONCE_MORE, working
from holdfast import App, Context, Retry
from support.waiting import until

Said = list[tuple[str, int, str]]


def hooks(said: Said, name: str = "") -> dict[str, Any]:
    """Each notes its name, the attempt and the error; every second one is a coroutine."""

    def note(hook: str) -> Any:
        def plain(ctx: Context, error: BaseException | None = None) -> None:
            said.append((f"{name}{hook}", ctx.attempt, str(error or "")))

        async def awaited(ctx: Context, error: BaseException | None = None) -> None:
            await asyncio.sleep(0)
            plain(ctx, error)

        return plain if len(hook) % 2 else awaited

    return {hook: note(hook) for hook in ("on_start", "on_success", "on_failure", "on_dead", "on_lease_lost")}


@pytest.mark.requirement("S2.33")
async def test_hooks_are_called_with_what_happened(dsn: str, books: Books) -> None:
    said: Said = []
    async with App(dsn, **hooks(said)) as app:

        @app.job(retry=Retry(max_attempts=2, backoff="10ms"))
        async def fall(number: int) -> None:
            raise RuntimeError(f"fell {number}")

        @app.job
        async def stand() -> None:
            pass

        async with working(app):
            await fall.enqueue(1)
            await books.all_finished(1)
            await stand.enqueue()
            await books.all_finished(2)
    assert said == [
        ("on_start", 1, ""),
        ("on_failure", 1, "fell 1"),
        ("on_start", 2, ""),
        ("on_failure", 2, "fell 1"),
        ("on_dead", 2, "fell 1"),
        ("on_start", 1, ""),
        ("on_success", 1, ""),
    ]


@pytest.mark.requirement("S2.34")
async def test_the_hooks_of_a_job_win_over_those_of_the_app(dsn: str, books: Books) -> None:
    said: Said = []
    own = hooks(said, "own ")
    async with App(dsn, **hooks(said)) as app:

        @app.job(retry=NO_MORE, on_failure=own["on_failure"], on_start=own["on_start"])
        async def fall() -> None:
            raise RuntimeError("fell")

        async with working(app):
            await fall.enqueue()
            await books.all_finished(1)
    assert [name for name, *_ in said] == ["own on_start", "own on_failure", "on_dead"]


@pytest.mark.requirement("S2.33")
@pytest.mark.parametrize("awaited", [False, True])
async def test_a_failing_hook_never_fails_a_job(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture, awaited: bool
) -> None:
    def plain(*_: object) -> None:
        raise RuntimeError("a hook is the user's code, too")

    async def coroutine(*_: object) -> None:
        plain()

    broken: Any = coroutine if awaited else plain
    async with App(dsn, on_start=broken, on_success=broken, on_failure=broken, on_dead=broken) as app:

        @app.job
        async def stand() -> str:
            return "stood"

        @app.job(retry=NO_MORE)
        async def fall() -> None:
            raise ValueError("fell")

        async with working(app):
            assert await (await stand.enqueue()).result("10s") == "stood"
            fallen = await fall.enqueue()
            await books.all_finished(2)
    assert books.outcomes(fallen.id) == ["failed"]
    failed = [record.getMessage() for record in caplog.records if "hook" in record.getMessage()]
    assert sorted(line.split()[1] for line in failed) == [
        "on_dead",
        "on_failure",
        "on_start",
        "on_start",
        "on_success",
    ]


@pytest.mark.requirement("S2.33", "S1.27", "S4.21")
async def test_a_run_that_was_taken_away_is_told_to_its_hook(dsn: str, books: Books) -> None:
    said: Said = []
    async with App(dsn, **hooks(said)) as app:
        is_first = True

        @app.job(retry=ONCE_MORE)
        async def wait_once() -> str:
            nonlocal is_first
            if is_first:
                is_first = False
                await asyncio.Event().wait()
            return "done"

        async with working(app):
            handle = await wait_once.enqueue()
            await until(lambda: books.leases() == 1, "it runs")
            books.run("update holdfast.worker set lost_at = now()")
            assert await handle.result("20s") == "done"
    told = [name for name, *_ in said]
    assert [name for name in told if name != "on_failure"] == [
        "on_start",
        "on_lease_lost",
        "on_start",
        "on_success",
    ]
    assert books.outcomes(handle.id) == ["retried", "succeeded"]


@pytest.mark.requirement("S2.33", "S2.24")
async def test_a_hook_that_never_ends_is_ended_by_the_timeout(dsn: str, books: Books) -> None:
    async def wait(_: Context) -> None:
        await asyncio.Event().wait()

    async with App(dsn) as app:

        @app.job(retry=NO_MORE, timeout="300ms", on_start=wait)
        async def never() -> None:
            pass

        async with working(app):
            handle = await never.enqueue()
            await books.all_finished(1, within=10)
    [(error,)] = books.run("select error from holdfast.ledger where job = %s", handle.id)
    assert error["code"] == "timeout"
