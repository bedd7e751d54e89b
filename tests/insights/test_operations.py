"""Operations: one action on all jobs that match a filter, which survives the process that began it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Job, Retry
from holdfast.domain.retention import Retention
from holdfast.errors import InvalidFilter, InvalidInput, OperationNotFound
from holdfast.insights import operation_runner, operation_steps
from holdfast.insights.operation_steps import Operation
from holdfast.insights.page_cursor import cursor_at
from holdfast.postgres.conversation import Conversation
from holdfast.postgres.database import Database
from holdfast.storage import operations as stored
from support.blocking_in_a_loop import both_colours
from support.waiting import until

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def work(app: App) -> Job[..., int]:
    @app.job(queue="mail", retry=Retry(max_attempts=1))
    async def work(number: int = 0) -> int:
        if number < 0:
            raise ValueError("too small")
        return number

    return work


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_steps, "BATCH", 4)


async def states(app: App) -> dict[str, int]:
    counted: dict[str, int] = {}
    for job in (await app.jobs.list(limit=1_000)).jobs:
        counted[job.state] = counted.get(job.state, 0) + 1
    return counted


def audited(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(
            "select action, by, target, counts from holdfast.audit order by id"
        ).fetchall()


@both_colours
async def test_a_preview_tells_what_would_be_done_and_why_some_would_be_left(
    app: App, work: Job[..., int]
) -> None:
    jobs = [(await work.enqueue(n)).id for n in range(6)]
    await app.jobs.cancel(jobs[:2])
    found = await app.operations.preview("cancel", "kind:work")
    assert (found.eligible, found.skipped, found.is_capped) == (4, {"cancelled": 2}, False)
    assert app.operations.preview_sync("cancel", "kind:work") == found
    assert await states(app) == {"ready": 4, "cancelled": 2}


async def test_a_preview_counts_no_further_than_it_must(
    app: App, work: Job[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_steps, "PREVIEWED", 5)
    await app.enqueue_many(work.call(n) for n in range(1_001))
    found = await app.operations.preview("cancel", "kind:work")
    assert found.is_capped
    assert found.eligible >= 5


async def test_all_jobs_that_match_are_concerned_and_no_others(
    app: App, work: Job[..., int], dsn: str
) -> None:
    for queue in ("mail", "other"):
        await app.enqueue_many(work.using(queue=queue).call(n) for n in range(10))
    seen: list[int] = []
    begun = await app.operations.start(
        "move", "queue:other", queue="bulk", create=True, by="ann", reason="too slow"
    )
    assert (begun.state, begun.parameters, begun.seen) == ("running", {"queue": "bulk"}, 0)
    done = await app.operations.finish(begun.id, on_progress=lambda operation: seen.append(operation.seen))
    assert (done.state, done.seen, done.counts) == ("done", 10, {"moved": 10})
    assert done.ended_at is not None
    assert seen == [0, 4, 8], "in batches"
    assert len((await app.jobs.list("queue:bulk")).jobs) == 10
    assert len((await app.jobs.list("queue:mail")).jobs) == 10
    assert audited(dsn) == [("move queue=bulk", "ann", "queue:other", {"moved": 10})]


def advanced(app: App, operation: int) -> Conversation[int | None]:
    """One batch of it."""
    return operation_steps.advance(app.schema, operation=operation, retention=Retention())


async def test_a_limit_takes_the_newest_and_ends_there(app: App, work: Job[..., int]) -> None:
    handles = await app.enqueue_many([work.call(n) for n in range(10)])
    seen = await app.operations.preview("cancel", "kind:work", limit=7)
    assert (seen.eligible, seen.skipped, seen.is_capped) == (7, {}, False)
    begun = await app.operations.start("cancel", "kind:work", limit=7)
    done = await app.operations.finish(begun.id)
    assert (done.state, done.seen, done.counts) == ("done", 7, {"cancelled": 7})
    left = (await app.jobs.list("state:ready")).jobs
    assert [job.id for job in left] == [handle.id for handle in handles[2::-1]]
    with pytest.raises(InvalidInput, match="limit is 0"):
        await app.operations.start("cancel", "kind:work", limit=0)


async def test_jobs_that_come_later_are_left_alone(app: App, work: Job[..., int]) -> None:
    await app.enqueue_many(work.call(n) for n in range(5))
    begun = await app.operations.start("cancel", "kind:work")
    await app.enqueue_many(work.call(n) for n in range(3))
    await app.operations.finish(begun.id)
    assert await states(app) == {"cancelled": 5, "ready": 3}


async def test_a_batch_is_done_whole_or_not_at_all(app: App, work: Job[..., int], dsn: str) -> None:
    """As after a kill between two batches, and in the middle of one."""
    await app.enqueue_many(work.call(n) for n in range(10))
    begun = await app.operations.start("cancel", "kind:work")
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await app._connections.hold(advanced(app, begun.id), connection)
        assert await app._connections.hold(advanced(app, begun.id), None) is None, "another is at it"
        await connection.rollback()
    assert (await app.operations.show(begun.id)).seen == 0
    assert await states(app) == {"ready": 10}
    assert await app._connections.hold(advanced(app, begun.id), None) == begun.id
    assert ((await app.operations.show(begun.id)).seen, await states(app)) == (
        4,
        {"ready": 6, "cancelled": 4},
    )
    assert (await app.operations.finish(begun.id)).counts == {"cancelled": 10}


async def test_the_leader_goes_on_with_what_another_process_has_left(
    app: App, work: Job[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_runner, "_IDLE", timedelta())
    await app.enqueue_many(work.using(queue="elsewhere").call(n) for n in range(10))
    async with app.worker(queues={"mail": 1}):
        begun = await app.operations.start("cancel", "queue:elsewhere")

        async def is_done() -> bool:
            return (await app.operations.show(begun.id)).state == "done"

        await until(is_done)
    assert await states(app) == {"cancelled": 10}


async def test_the_leader_goes_through_an_operation_in_one_go(
    app: App, work: Job[..., int], dsn: str
) -> None:
    await app.enqueue_many(work.call(n) for n in range(10))
    begun = await app.operations.start("cancel", "kind:work")
    async with Database(dsn, purpose="test") as database:
        runner = operation_runner.OperationRunner(database, app.schema, Retention())
        did = await runner.once()
        assert (did.count, did.again_in) == (0, 3.0), "it was begun just now: it is looked at again"
        await app.run(
            stored.advance(app.schema, begun.id, cursor=cursor_at(999), counts={}, seen=0, now=LONG_AGO)
        )
        turns = [(await runner.once()).is_more for _ in range(4)]
    assert turns == [True, True, True, False]
    assert (await app.operations.show(begun.id)).counts == {"cancelled": 10}


async def test_an_operation_is_stopped_and_what_it_did_stays_done(
    app: App, work: Job[..., int], dsn: str
) -> None:
    await app.enqueue_many(work.call(n) for n in range(10))
    begun = await app.operations.start("cancel", "kind:work")
    await app._connections.hold(advanced(app, begun.id), None)
    stopped = await app.operations.stop(begun.id, by="ann")
    assert (stopped.state, stopped.seen) == ("stopped", 4)
    assert (await app.operations.finish(begun.id)).state == "stopped"
    assert (await app.operations.stop(begun.id)).state == "stopped"
    assert await states(app) == {"ready": 6, "cancelled": 4}
    assert [entry[0:2] for entry in audited(dsn)] == [("stop", "ann")]


async def test_failed_jobs_are_retried_or_deleted_by_a_filter(app: App, work: Job[..., int]) -> None:
    await app.enqueue_many(work.call(-1) for _ in range(6))
    async with app.worker(queues={"mail": 6}):

        async def have_failed() -> bool:
            return await states(app) == {"failed": 6}

        await until(have_failed)
    [newest, *_] = (await app.jobs.list("state:failed")).jobs
    begun = await app.operations.start("delete", "state:failed")
    await app.jobs.retry(newest.id)
    done = await app.operations.finish(begun.id)
    assert done.counts == {"deleted": 5}, "one has been retried since"
    assert await states(app) == {"ready": 1}
    later = await app.operations.start("reschedule", "state:ready", when=datetime(2999, 1, 1, tzinfo=UTC))
    assert (await app.operations.finish(later.id)).counts == {"rescheduled": 1}
    sooner = await app.operations.start("reschedule", "state:scheduled", when=timedelta())
    assert (await app.operations.finish(sooner.id)).counts == {"rescheduled": 1}
    raised = await app.operations.start("reprioritise", "state:ready", priority=0)
    assert (await app.operations.finish(raised.id)).counts == {"changed": 1}


@both_colours
async def test_operations_are_listed_newest_first(app: App, work: Job[..., int]) -> None:
    begun = [(await app.operations.start("cancel", f"kind:{name}")).id for name in "abc"]
    assert [each.id for each in await app.operations.list()] == begun[::-1]
    assert [each.id for each in app.operations.list_sync(before=begun[1], limit=5)] == begun[:1]
    finished: Operation = app.operations.finish_sync(begun[0])
    assert (finished.state, finished.counts) == ("done", {})


@pytest.mark.parametrize(
    ("action", "text", "given", "told"),
    [
        ("explode", "kind:a", {}, "give cancel, retry"),
        ("cancel", "", {}, "say which jobs"),
        ("cancel", "kind:a", {"queue": "b"}, "takes no parameters, not queue"),
        ("move", "kind:a", {}, "move takes queue, not none"),
        ("move", "kind:a", {"queue": ""}, "queue"),
        ("reprioritise", "kind:a", {"priority": 11}, "priority"),
        ("reschedule", "kind:a", {"when": "soon"}, "not a length of time"),
    ],
)
async def test_bad_input_is_refused(
    app: App, action: Any, text: str, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        await app.operations.start(action, text, **given)
    with pytest.raises(InvalidFilter):
        await app.operations.preview("cancel", "stat:ready")
    with pytest.raises(OperationNotFound):
        await app.operations.show(99)
    assert await app.operations.list() == []
