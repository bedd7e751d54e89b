"""`ctx.state` survives retries, and neither it nor ctx.progress can strand its run."""

from typing import Any

import pytest

from holdfast import App, Context, Retry
from holdfast.errors import InvalidInput, JobEnded
from holdfast.worker.state_and_progress import state_text
from worker.handler_runs import Run

LIMIT = 1024 * 1024


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


def build(ctx: Context) -> None: ...


def test_a_state_of_a_mebibyte_is_kept_and_a_byte_more_is_told_with_what_to_do() -> None:
    context = Run.of(build).context
    context.state["seen"] = "é" * ((LIMIT - len('{"seen":""}')) // 2)
    text = state_text(context.state)
    assert text is not None
    assert len(text.encode()) == LIMIT - 1
    context.state["seen"] += "xy"
    with pytest.raises(
        InvalidInput, match=r"takes 1,048,577 bytes, the limit is 1,048,576 \(store the bulk elsewhere"
    ):
        state_text(context.state)


@pytest.mark.parametrize("state", ["half \ud800", "nul \0", float("nan"), {1, 2}, {"a": 10**5000}])
def test_a_state_that_postgres_cannot_keep_is_refused_before_it_is_sent(state: Any) -> None:
    context = Run.of(build).context
    context.state["seen"] = state
    with pytest.raises((ValueError, TypeError)):
        state_text(context.state)


async def test_a_state_that_is_too_large_is_a_failed_attempt_that_leaves_what_was_there(dsn: str) -> None:
    app = App(dsn)
    seen: list[int | None] = []

    @app.job(retry=Retry(max_attempts=2, backoff="10ms"))
    async def hoarding(ctx: Context) -> None:
        seen.append(ctx.state.get("runs"))
        ctx.state["runs"] = len(seen)
        if len(seen) == 1:
            raise ValueError("not yet")
        if len(seen) == 2:
            ctx.state["heap"] = "x" * LIMIT

    async with app, app.worker():
        handle = await hoarding.enqueue()
        with pytest.raises(JobEnded, match=r"ctx\.state cannot be kept: it takes 1,048,\d+ bytes") as ended:
            await handle.result("20s")
        assert ended.value.error["type"] == "holdfast.errors.InvalidInput"
        await app.jobs.resume([handle.id])
        await handle.result("20s")
    assert seen == [None, 1, 1]


BAD_PROGRESS: list[tuple[dict[str, Any], str]] = [
    ({"value": float("nan")}, "progress is nan: give a number from 0 up"),
    ({"value": float("inf")}, "progress is inf"),
    ({"value": -1}, "progress is -1: give a number from 0 up, such as a fraction or a count"),
    ({"value": 10**5000}, "progress cannot be written as JSON"),
    ({"value": True}, "progress is True"),
    ({"value": "50"}, "progress is '50'"),
    ({"pages": float("nan")}, "progress cannot be written as JSON: .*: give what JSON can hold"),
    ({"pages": {(1, 2): 3}}, "progress cannot be written as JSON: keys must be"),
    ({"note": "x" * 16_384}, r"progress takes 16,\d+ bytes, the limit is 16,384: say less"),
]


@pytest.mark.parametrize(("said", "told"), BAD_PROGRESS)
def test_progress_that_says_nothing_is_refused_where_it_is_said(said: dict[str, Any], told: str) -> None:
    run = Run.of(build)
    with pytest.raises(InvalidInput, match=told):
        run.context.progress(**said)
    assert run.said == []


def test_progress_is_on_any_scale_and_of_any_text() -> None:
    run = Run.of(build)
    for value in (0, 0.5, 101, 10**12):
        run.context.progress(value)
    run.context.progress(note="half \ud800 é \0", when=LIMIT)
    assert [said.get("value") for said in run.said] == [0, 0.5, 101, 10**12, None]
    assert run.said[-1] == {"note": "half ? é \N{REPLACEMENT CHARACTER}", "when": LIMIT}
