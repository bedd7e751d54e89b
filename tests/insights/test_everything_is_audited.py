"""Whatever an operator changes leaves an entry in the audit, in the same transaction. The verbs are read from
the classes: a new one is refused here until it is known to read only, or is shown to leave an entry.
"""

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Flow, Retry
from holdfast.errors import JobEnded
from holdfast.storage.failures import fold_failures
from holdfast.storage.workers import register

PARTS = (
    *("jobs", "queues", "kinds", "failures", "workers", "operations", "audit", "flows", "groups", "limits"),
    "schedules",
)
READS = {
    "list",
    "show",
    "get",
    "explain",
    "logs",
    "tail",
    "count",
    "preview",
    "next_times",
    "plans",
    "latest_plan",
    "members",
}
IN_THE_NAME_OF_ANOTHER = {("operations", "finish")}
"""It goes on with what `start` was asked for, and the entry names who asked."""


@dataclass
class Ground:
    """Things to act on."""

    app: App
    waiting: list[int]
    failed: list[int]
    flows: list[int]
    many: int
    group: str
    worker: int


Act = Callable[..., Awaitable[object]]


async def _ground(app: App) -> Ground:
    app.limit("stripe", total=1)

    @app.job(queue="mail", retry=Retry(max_attempts=1))
    async def work(number: int = 0) -> None:
        if number < 0:
            raise ValueError("too small")

    @app.flow(queue="mail", retry=Retry(max_attempts=1))
    async def order(flow: Flow) -> None:
        await flow.now("begun")
        raise ValueError("no paper")

    ending = [await work.enqueue(-1) for _ in range(6)] + [await order.enqueue() for _ in range(3)]
    async with app.worker(queues={"mail": 5}):
        for handle in ending:
            with suppress(JobEnded):
                await handle.result("60s")
    await app.run(fold_failures(app.schema))
    groups = (await app.failures.list(kind="work")).groups
    waiting = [(await work.using(delay="1h").enqueue(number)).id for number in range(9)]
    await app.schedules.put("nightly", work.call(1), every=timedelta(days=1))
    many = await app.group([work.using(delay="1h").call(number) for number in range(2)])
    jobs = [handle.id for handle in ending]
    # Registered, and asked for things, but not there to do them.
    [worker] = await app.run(
        register(
            app.schema,
            host="here",
            pid=1,
            version="1",
            queues=["mail"],
            kinds=["work"],
            slots=2,
            queue_slots=[2],
            lease=timedelta(hours=1),
        )
    )
    return Ground(app, waiting, jobs[:6], jobs[6:], many.id, groups[0].fingerprint, worker)


def _acts(ground: Ground) -> dict[tuple[str, str], Act]:
    """Each verb with what it needs; every call has something to change."""
    app, waiting, failed, flows = ground.app, ground.waiting, ground.failed, ground.flows
    nightly = "nightly"

    async def put(**more: Any) -> object:
        work = app.declared_kinds["work"]
        call = app._new_job(work).call(number=2)  # the job of the ground, by its kind
        more.pop("note", None)
        return await app.schedules.put(nightly, call, every=timedelta(days=2), **more)

    async def started(**more: Any) -> object:
        begun = await app.operations.start("cancel", f"id:{waiting[7]}", **more)
        conn = more.get("conn")
        if conn is None:
            await app.operations.finish(begun.id)
        else:
            async with app.using(conn=conn):
                await app.operations.finish(begun.id)
        return begun

    async def stopped(**more: Any) -> object:
        begun = await app.operations.start(
            "cancel", f"id:{waiting[8]}", by="somebody else", conn=more.get("conn")
        )
        return await app.operations.stop(begun.id, **more)

    async def backfilled(**more: Any) -> object:
        [row] = [each for each in await app.schedules.list() if each.name == nightly]
        return await app.schedules.backfill(
            nightly, row.created_at - timedelta(days=5), row.created_at, **more
        )

    return {
        ("jobs", "cancel"): lambda **m: app.jobs.cancel(waiting[0], **m),
        ("jobs", "retry"): lambda **m: app.jobs.retry(failed[0], **m),
        ("jobs", "resume"): lambda **m: app.jobs.resume(failed[1], **m),
        ("jobs", "reprioritise"): lambda **m: app.jobs.reprioritise(waiting[1], 1, **m),
        ("jobs", "reschedule"): lambda **m: app.jobs.reschedule(waiting[2], "2h", **m),
        ("jobs", "move"): lambda **m: app.jobs.move(waiting[3], "mail", **m),
        ("jobs", "delete"): lambda **m: app.jobs.delete(waiting[4], **m),
        ("jobs", "rerun"): lambda **m: app.jobs.rerun(waiting[5], **m),
        ("queues", "pause"): lambda reason, **m: app.queues.pause("mail", note=reason, **m),
        ("queues", "resume"): lambda **m: app.queues.resume("mail", **m),
        ("kinds", "enqueue"): lambda **m: app.kinds.enqueue("work", {"number": 1}, **m),
        ("failures", "retry"): lambda **m: app.failures.retry(ground.group, limit=1, **m),
        ("failures", "purge"): lambda **m: app.failures.purge(ground.group, **m),
        ("operations", "start"): started,
        ("operations", "stop"): stopped,
        ("flows", "resume"): lambda **m: app.flows.resume(flows[0], **m),
        ("flows", "retry"): lambda **m: app.flows.retry(flows[1], **m),
        ("flows", "cancel"): lambda **m: app.flows.cancel(flows[1], **m),
        ("groups", "cancel"): lambda **m: app.groups.cancel(ground.many, **m),
        ("limits", "set"): lambda **m: app.limits.set("stripe", total=2, **m),
        ("limits", "reset"): lambda **m: app.limits.reset("stripe", **m),
        ("limits", "close"): lambda **m: app.limits.close("stripe", **m),
        ("limits", "open"): lambda **m: app.limits.open("stripe", **m),
        ("limits", "remove"): lambda **m: app.limits.remove("stripe", **m),
        ("flows", "emit"): lambda **m: app.flows.emit("paper", {"sheets": 5}, **m),
        ("schedules", "put"): put,
        ("schedules", "pause"): lambda reason, **m: app.schedules.pause(nightly, note=reason, **m),
        ("schedules", "resume"): lambda **m: app.schedules.resume(nightly, **m),
        ("schedules", "run_now"): lambda **m: app.schedules.run_now(nightly, **m),
        ("schedules", "skip_next"): lambda **m: app.schedules.skip_next(nightly, **m),
        ("schedules", "backfill"): backfilled,
        ("schedules", "delete"): lambda **m: app.schedules.delete(nightly, **m),
        ("workers", "quiet"): lambda **m: app.workers.quiet(ground.worker, **m),
        ("workers", "resume"): lambda **m: app.workers.resume(ground.worker, **m),
        ("workers", "slots"): lambda **m: app.workers.slots(ground.worker, "mail", 1, **m),
        ("workers", "stop"): lambda **m: app.workers.stop(ground.worker, **m),
        ("kinds", "forget"): lambda **m: app.kinds.forget("work", **m),
    }


def _verbs(app: App) -> set[tuple[str, str]]:
    """All that operators can call: each has a blocking twin."""
    return {
        (part, name.removesuffix("_sync"))
        for part in PARTS
        for name in dir(getattr(app, part))
        if name.endswith("_sync") and not name.startswith("_")
    }


def _entries(dsn: str, by: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        query = "select action, target, reason, counts from holdfast.audit where by = %s order by id"
        return connection.execute(query, (by,)).fetchall()


async def test_every_verb_that_changes_something_leaves_an_entry_in_the_same_transaction(
    app: App, dsn: str
) -> None:
    ground = await _ground(app)
    acts = _acts(ground)
    changing = {each for each in _verbs(app) if each[1] not in READS} - IN_THE_NAME_OF_ANOTHER
    assert set(acts) == changing, "a verb that is new here has to leave an entry, or belongs into READS"
    for (part, verb), act in acts.items():
        by = f"ann, {part} {verb}"
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await act(by=by, reason="it is late", conn=connection)
            await connection.rollback()
        assert _entries(dsn, by) == [], f"{part}.{verb} wrote its entry elsewhere"
        await act(by=by, reason="it is late")
        entries = _entries(dsn, by)
        assert len(entries) == 1, f"{part}.{verb} left no entry"
        [(action, target, reason, _)] = entries
        meant = {"purge": "delete", "start": "cancel", "slots": ""}.get(verb, verb.split("_")[0])
        assert action.startswith(meant)
        assert target
        assert reason == "it is late"


@pytest.mark.parametrize("part", PARTS)
def test_a_verb_that_takes_who_acts_takes_why_too(part: str) -> None:
    verbs = getattr(App("embedded"), part)
    for name in dir(verbs):
        if not name.startswith("_") and callable(getattr(verbs, name)):
            taken = inspect.signature(getattr(verbs, name)).parameters
            has_why = "reason" in taken or "note" in taken
            assert ("by" in taken) == has_why or part == "audit", f"{part}.{name}"


async def test_a_schedule_that_is_put_again_unchanged_leaves_no_entry(app: App, dsn: str) -> None:
    @app.job
    async def work(number: int) -> None: ...

    for _ in range(2):
        await app.schedules.put("nightly", work.call(1), every=timedelta(days=1), by="ann")
    await app.schedules.put("nightly", work.call(1), every=timedelta(days=1), scopes=["eu", "us"], by="ann")
    assert [(action, counts) for action, _, _, counts in _entries(dsn, "ann")] == [
        ("put schedule", {"new": 1}),
        ("put schedule", {"changed": 1}),
    ]
    assert await app.schedules.resume("nightly", by="ann") is False
    assert len(_entries(dsn, "ann")) == 2


@pytest.mark.parametrize("by", ["", "  ", 5])
async def test_an_action_by_nobody_is_refused_before_anything_is_changed(app: App, dsn: str, by: Any) -> None:
    @app.job
    async def work() -> None: ...

    await app.schedules.put("nightly", work.call(), every=timedelta(days=1))
    for act in (app.schedules.delete, app.schedules.run_now, app.schedules.pause):
        with pytest.raises(ValueError, match="by is"):
            await act("nightly", by=by)
    assert not (await app.schedules.get("nightly")).is_paused
