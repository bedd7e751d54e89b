"""`app.jobs.show`: one job in full, with its runs, errors, links, and without its secrets."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import pytest

from holdfast import App, Context, Flow, Limit, Middleware, OutgoingJob, Retry, Secret
from holdfast.cli.jobs_output import detail_facts, facts
from holdfast.domain.redaction import MASK
from holdfast.domain.traceback_frames import frames_of, own_frame
from holdfast.errors import JobEnded, JobNotFound
from holdfast.storage.limit_rules import declare
from storage.gate import admit
from support.blocking_in_a_loop import both_colours
from support.engine import SCHEMA, Engine
from support.waiting import until


class CardError(Exception): ...


def refuse(card: str) -> None:
    raise CardError(f"the bank refused {card}")


@both_colours
async def test_every_run_is_told_with_its_error_and_its_own_frames(app: App) -> None:
    @app.job(retry=Retry(max_attempts=2, backoff="0s"))
    async def charge(ctx: Context, card: Secret[str]) -> None:
        ctx.progress(0.5, note="asking the bank")
        try:
            json.loads("[")
        except ValueError:
            refuse(card)

    handle = await charge.enqueue("4111-1111")
    async with app.worker():
        with pytest.raises(JobEnded):
            await handle.result("60s")

        async def is_known() -> bool:
            return bool((await app.jobs.show(handle.id)).args != MASK)

        await until(is_known)
        shown = await app.jobs.show(handle.id)
    assert app.jobs.show_sync(handle.id).runs == shown.runs
    assert (shown.summary.state, shown.summary.attempt) == ("failed", 2)
    assert shown.args == {"card": MASK}
    assert [(run.attempt, run.outcome, run.is_final) for run in shown.runs] == [
        (1, "retried", False),
        (2, "failed", True),
    ]
    for run in shown.runs:
        assert run.waited is not None
        assert run.took is not None
        assert run.took >= timedelta()
        assert run.error is not None
        assert (run.error.type, run.error.message) == (f"{__name__}.CardError", f"the bank refused {MASK}")
        assert run.error.causes[0].startswith("json.decoder.JSONDecodeError")
        own = [frame.function for frame in run.error.frames if frame.is_own]
        assert own == ["charge", "charge", "refuse"]
        assert any(not frame.is_own for frame in run.error.frames)
    assert "4111" not in repr(shown)


@both_colours
async def test_what_holds_a_job_back_is_told_too(app: App) -> None:
    @app.job
    async def charge() -> None: ...

    handle = await charge.enqueue()
    shown = await app.jobs.show(handle.id)
    assert shown.explanation == await app.jobs.explain(handle.id)
    assert (shown.explanation.job, shown.explanation.reason) == (handle.id, "no_worker")


async def test_a_flow_shows_its_children_and_a_child_its_parent(app: App) -> None:
    @app.job
    async def child(n: int) -> int:
        return n

    @app.flow
    async def parent(flow: Flow) -> int:
        return await flow.call(child, 1)

    flow = await parent.enqueue()
    async with app.worker():
        assert await flow.result("60s") == 1
        shown = await app.jobs.show(flow.id)
        assert shown.is_flow
        [called] = shown.children
        assert (called.kind, called.parent, called.state) == ("child", flow.id, "succeeded")
        assert not shown.has_more_children


async def test_a_job_of_a_schedule_names_its_plan(app: App) -> None:
    @app.job
    async def report() -> None: ...

    await app.schedules.put("nightly", report.call(), every="1d")
    await app.schedules.run_now("nightly")
    [job] = (await app.jobs.list("schedule:nightly")).jobs
    shown = await app.jobs.show(job.id)
    assert (shown.schedule, shown.scope) == ("nightly", "")
    assert shown.plan_time is not None


async def test_a_secret_result_is_masked(app: App) -> None:
    @app.job
    async def make_token() -> Secret[str]:
        return "s3cret-token"

    handle = await make_token.enqueue()
    async with app.worker():
        assert await handle.result("60s") == "s3cret-token"
    shown = await app.jobs.show(handle.id)
    assert shown.result == MASK


class Tracing(Middleware):
    @contextmanager
    def enqueuing(self, jobs: Sequence[OutgoingJob]) -> Iterator[None]:
        for job in jobs:
            job.headers["tenant"] = "acme"
        yield


async def test_the_headers_of_a_job_are_shown(app: App, dsn: str) -> None:
    async with App(dsn, middleware=[Tracing()]) as sender:

        @sender.job
        async def invoice() -> None: ...

        handle = await invoice.enqueue()
    shown = await app.jobs.show(handle.id)
    assert shown.headers == {"tenant": "acme"}
    assert dict(facts(shown))["headers"] == '{"tenant": "acme"}'
    assert detail_facts(shown)["headers"] == {"tenant": "acme"}


async def test_an_unknown_job_is_not_found(app: App) -> None:
    with pytest.raises(JobNotFound):
        await app.jobs.show(42)


def test_frames_of_libraries_and_of_holdfast_are_told_from_own_ones() -> None:
    text = """Traceback (most recent call last):
  File "/usr/lib/python3.11/asyncio/tasks.py", line 267, in __step
    result = coro.send(None)
  File "/venv/lib/python3.11/site-packages/holdfast/worker/callers.py", line 34, in call
  File "/srv/shop/jobs.py", line 12, in charge
    bank.pay(card)
    ~~~~~~~~^^^^^^
  File "/venv/lib/python3.11/site-packages/bank/client.py", line 9, in pay
    raise Refused
bank.Refused: no
"""
    frames = frames_of(text)
    assert [frame.is_own for frame in frames] == [False, False, True, False]
    assert [frame.code for frame in frames] == [
        "result = coro.send(None)",
        "",
        "bank.pay(card)",
        "raise Refused",
    ]
    own = own_frame(text)
    assert own is not None
    assert (own.file, own.line, own.function) == ("/srv/shop/jobs.py", 12, "charge")
    assert own_frame("") is None


async def test_the_limits_of_a_job_are_told_with_where_it_stands(app: App, dsn: str) -> None:
    accounts, cpu = app.limit("accounts", per_key=1), app.limit("cpu", total=1)

    @app.job(limit=[accounts.by("account"), cpu])
    async def sync(account: str) -> None: ...

    with Engine.on(dsn, now=None) as engine:
        worker = engine.worker(kinds=("sync",))
        engine.hold(declare(SCHEMA, {"accounts": accounts.spec, "cpu": cpu.spec}))
        first, second, third = [
            handle.id for handle in await app.enqueue_many(map(sync.call, ["acme", "acme", "bolt"]))
        ]
        admit(engine)
        engine.claim(worker, kinds=("sync",))
    told = {
        job: [(limit.name, limit.key, limit.permit) for limit in (await app.jobs.show(job)).limits]
        for job in (first, second, third)
    }
    assert told == {
        first: [("accounts", "acme", "held"), ("cpu", None, "held")],
        second: [("accounts", "acme", "awaited"), ("cpu", None, None)],
        third: [("accounts", "bolt", "held"), ("cpu", None, "awaited")],
    }
    assert [line for name, line in facts(await app.jobs.show(second)) if name == "limit"] == [
        "accounts, key acme: waits at the gate, see: holdfast limits show accounts --key acme",
        "cpu: needs no permit now",
    ]
    lines = [line for name, line in facts(await app.jobs.show(third)) if name == "limit"]
    assert lines[0] == "accounts, key bolt: holds a permit"


async def test_a_job_that_keeps_its_permit_until_its_next_attempt_says_so(app: App) -> None:
    @app.job(limit=Limit(key="account", per_key=1, hold="job"), retry=Retry(backoff="1h"))
    async def sync(account: str) -> None:
        raise ValueError("not yet")

    handle = await sync.enqueue("acme")
    async with app.worker():

        async def is_retrying() -> bool:
            return (await app.jobs.show(handle.id)).summary.is_retrying

        await until(is_retrying)
    assert [limit.permit for limit in (await app.jobs.show(handle.id)).limits] == ["held"]
    await app.jobs.cancel(handle.id)
    assert [limit.permit for limit in (await app.jobs.show(handle.id)).limits] == [None]
