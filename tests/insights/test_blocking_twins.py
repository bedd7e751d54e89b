"""Every method of `app.jobs`, `app.queues`, `app.operations` and `app.groups` does the same awaited and as
`_sync`.
"""

import asyncio
import inspect
from typing import Any

import psycopg
import pytest

from holdfast import App, Job, Retry
from holdfast.errors import JobEnded
from holdfast.insights.operation_steps import Operation


class Verbs:
    """Calls the methods of one part of an app, all of them awaited or all of them blocking in a thread."""

    def __init__(self, part: object, *, is_blocking: bool) -> None:
        self._part = part
        self._is_blocking = is_blocking
        self._left = {name.removesuffix("_sync") for name in dir(part) if name.endswith("_sync")}
        assert self._left, "there are some"

    async def __call__(self, name: str, /, *args: Any, **options: Any) -> Any:
        self._left.discard(name)
        if self._is_blocking:
            return await asyncio.to_thread(getattr(self._part, f"{name}_sync"), *args, **options)
        return await getattr(self._part, name)(*args, **options)

    def check_all_called(self) -> None:
        assert self._left == set()

    def check_all_but(self, *iterators: str) -> None:
        """These are gone through, and not awaited."""
        assert self._left == set(iterators)


both = pytest.mark.parametrize("is_blocking", [False, True], ids=["awaited", "blocking"])


@pytest.fixture
def work(app: App) -> Job[..., int]:
    @app.job(queue="mail", retry=Retry(max_attempts=1))
    async def work(number: int = 0) -> int:
        if number < 0:
            raise ValueError("too small")
        return number

    return work


def audited(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(
            "select split_part(action, ' ', 1), target, reason"
            "  from holdfast.audit where by = 'ann' order by id"
        ).fetchall()


@both
async def test_jobs(app: App, work: Job[..., int], dsn: str, is_blocking: bool) -> None:
    do = Verbs(app.jobs, is_blocking=is_blocking)
    why = {"by": "ann", "reason": "price"}
    failed = [(await work.enqueue(-1)).id for _ in range(2)]
    async with app.worker(queues={"mail": 2}):
        for job in failed:
            with pytest.raises(JobEnded):
                await app.handle(job).result("60s")
    first, second = [(await work.using(delay="1h").enqueue(number)).id for number in (1, 2)]

    assert [job.id for job in (await do("list", "state:scheduled", limit=1)).jobs] == [second]
    assert (await do("explain", first)).reason == "scheduled"
    assert await do("retry", failed[0], **why) == {failed[0]: "retried"}
    assert await do("resume", failed[1], **why) == {failed[1]: "resumed"}
    assert await do("reprioritise", first, 1, **why) == {first: "changed"}
    assert await do("move", [first, 99], "post", create=True, **why) == {first: "moved", 99: "unknown"}
    assert await do("reschedule", first, "0s", **why) == {first: "rescheduled"}
    summary = (await do("show", first)).summary
    assert (summary.state, summary.queue, summary.priority) == ("ready", "post", 1)
    assert (await do("logs", first)).lines == ()
    assert (await do("tail", f"id:{first}")).events == ()
    copy = await do("rerun", first, args={"number": 7}, **why)
    assert (await app.jobs.show(copy)).args == {"number": 7}
    assert await do("cancel", first, **why) == {first: "cancelled"}
    assert await do("delete", second, **why) == {second: "deleted"}
    do.check_all_called()
    assert audited(dsn) == [
        ("retry", f"job {failed[0]}", "price"),
        ("resume", f"job {failed[1]}", "price"),
        ("reprioritise", f"job {first}", "price"),
        ("move", f"jobs {first}, 99", "price"),
        ("reschedule", f"job {first}", "price"),
        ("rerun", f"job {first} as job {copy}", "price"),
        ("cancel", f"job {first}", "price"),
        ("delete", f"job {second}", "price"),
    ]


@both
async def test_queues(app: App, is_blocking: bool) -> None:
    do = Verbs(app.queues, is_blocking=is_blocking)
    assert (await do("pause", "mail", note="server down", until="2h", create=True)).note == "server down"
    [mail] = await do("list")
    assert mail.is_paused
    assert mail.paused_until is not None
    assert await do("list", after=mail) == []
    assert await do("resume", "mail") is True
    assert await do("list") == []
    do.check_all_called()


@both
async def test_groups(app: App, work: Job[..., int], is_blocking: bool) -> None:
    do = Verbs(app.groups, is_blocking=is_blocking)
    group = await app.group([work.using(delay="1h").call(number) for number in range(3)], name="night")
    assert [each.id for each in await do("list", name="night", state="running")] == [group.id]
    assert await do("list", name="day") == []
    assert len((await do("show", group.id)).awaited) == 3
    come: list[int] = []
    assert (await do("cancel", group.id, on_progress=come.append)).state == "cancelled"
    assert come == [3]
    do.check_all_but("members")
    awaited = [member.state async for member in app.groups.members(group.id, page=2)]
    blocking = await asyncio.to_thread(lambda: [each.state for each in app.groups.members_sync(group.id)])
    assert awaited == blocking == ["cancelled"] * 3


@both
async def test_operations(app: App, work: Job[..., int], dsn: str, is_blocking: bool) -> None:
    do = Verbs(app.operations, is_blocking=is_blocking)
    job = (await work.using(delay="1h").enqueue(1)).id
    assert (await do("preview", "reprioritise", "kind:work", priority=1)).eligible == 1
    begun = await do("start", "reprioritise", "kind:work", priority=1, by="ann", reason="urgent")
    shown: list[Operation] = []
    ended = await do("finish", begun.id, on_progress=shown.append)
    assert [each.id for each in shown] == [begun.id]
    assert ended == await do("show", begun.id)
    assert not ended.is_running
    assert (await app.jobs.show(job)).summary.priority == 1
    other = await do("start", "delete", "kind:work", by="ann")
    assert not (await do("stop", other.id, by="ann")).is_running
    assert [each.id for each in await do("list", before=other.id)] == [begun.id]
    assert (await app.jobs.show(job)).summary.state == "scheduled", "it was stopped before its first batch"
    do.check_all_called()


@pytest.mark.parametrize("part", ["jobs", "queues", "operations", "kinds", "workers", "flows", "schedules"])
def test_both_take_the_same_parameters(part: str) -> None:
    verbs = getattr(App("embedded"), part)
    names = [name for name in dir(verbs) if name.endswith("_sync")]
    assert names
    for name in names:
        awaited = inspect.signature(getattr(verbs, name.removesuffix("_sync")))
        assert inspect.signature(getattr(verbs, name)).parameters == awaited.parameters, name
