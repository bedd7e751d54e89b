"""What a handler leaves in `ctx.state` survives retries, and cannot strand its run."""

import pytest

from holdfast import App, Context, Retry
from holdfast.errors import JobEnded


async def test_a_state_that_json_cannot_hold_is_a_failed_attempt_and_not_a_stranded_run(dsn: str) -> None:
    app = App(dsn)

    @app.job(retry=Retry(max_attempts=1))
    async def careless(ctx: Context) -> None:
        ctx.state["seen"] = {1, 2}

    async with app, app.worker():
        handle = await careless.enqueue()
        with pytest.raises(JobEnded, match=r"failed .*not JSON serializable"):
            await handle.result("20s")


async def test_a_state_survives_a_retry(dsn: str) -> None:
    app = App(dsn)

    @app.job(retry=Retry(max_attempts=3, backoff="10ms"))
    async def counting(ctx: Context) -> list[int]:
        ctx.state.setdefault("attempts", []).append(ctx.attempt)
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return [int(attempt) for attempt in ctx.state["attempts"]]

    async with app, app.worker():
        assert await (await counting.enqueue()).result("20s") == [1, 2, 3]
