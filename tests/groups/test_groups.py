"""Groups as users see them: members of any kinds, and the job that follows them, once."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from flows.fast_worker import working
from groups.kinds import ONCE, Kinds
from holdfast import (
    App,
    Context,
    EndedGroup,
    Group,
    GroupCounts,
    Limit,
    Member,
    Middleware,
    OutgoingJob,
    Retention,
)
from holdfast.app import connections_of
from holdfast.errors import DuplicateJob, GroupFailed, GroupNotFound, GroupTimeout, InvalidInput, JobEnded
from holdfast.job import Call
from holdfast.worker.chores.group_closer import GroupCloser
from support.waiting import until

PATIENCE = "30s"


def all_of(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(query).fetchall()


async def test_what_follows_is_enqueued_once_all_members_have_ended_and_is_told_how(
    app: App, kinds: Kinds
) -> None:
    group = await app.group(
        (kinds.work.call(number) for number in range(5)), then=kinds.report.call("sum"), name="nightly"
    )
    async with working(app):
        assert await group.result(PATIENCE) == "sum: 5 of 5"
    assert kinds.told == [("report", EndedGroup(group.id, "nightly", GroupCounts(5, 5)))]
    status = await group.status()
    assert (status.state, status.counts, status.has_failed) == ("ended", GroupCounts(5, 5), False)
    assert status.is_closed
    assert status.is_final


async def test_nothing_follows_while_a_member_has_not_ended(app: App, kinds: Kinds) -> None:
    calls = [kinds.work.call(1), kinds.work.using(delay="1h").call(2)]
    group = await app.group(calls, then=kinds.report.call("sum"))
    async with working(app):
        await until(lambda: _has_ended(group, 1))
        with pytest.raises(GroupTimeout, match="1 of 2 members have not ended") as raised:
            await group.result("50ms")
        assert (raised.value.left, raised.value.members) == (1, 2)
        detail = await app.groups.show(group.id)
        assert [(each.place, each.state) for each in detail.awaited] == [(1, "scheduled")]
        assert detail.sentence == "1 of 2 members have not ended; then report follows."
        [waiting] = [each.job for each in detail.awaited]
        await app.jobs.reschedule(waiting, "0s")
        assert await group.result(PATIENCE) == "sum: 2 of 2"


async def _has_ended(group: Group[Any], members: int) -> bool:
    return (await group.status()).counts.ended >= members


async def test_without_on_failure_then_follows_members_that_failed_too(app: App, kinds: Kinds) -> None:
    expired = kinds.work.using(deadline="1ms").call(3)
    group = await app.group([kinds.work.call(1), kinds.work.call(-1), expired], then=kinds.report.call("sum"))
    async with working(app):
        assert await group.result(PATIENCE) == "sum: 1 of 3"
    [(_, told)] = kinds.told
    assert told is not None
    assert told.counts == GroupCounts(3, succeeded=1, failed=1, expired=1)
    assert told.counts.unsuccessful == 2


async def test_on_failure_takes_the_place_of_then_if_a_member_did_not_succeed(app: App, kinds: Kinds) -> None:
    group = await app.group(
        [kinds.work.call(1), kinds.work.call(-1)],
        then=kinds.report.call("sum"),
        on_failure=kinds.alarm.call(),
    )
    async with working(app):
        with pytest.raises(GroupFailed, match="1 of 2 members did not succeed") as raised:
            await group.result(PATIENCE)
        assert not raised.value.is_cancelled
        await until(lambda: kinds.told)
        await until(lambda: _is_final(group))
    assert [name for name, _ in kinds.told] == ["alarm"]
    assert (await group.status()).has_failed


async def _is_final(group: Group[Any]) -> bool:
    return (await group.status()).is_final


async def test_then_follows_if_all_succeed_although_there_is_an_on_failure(app: App, kinds: Kinds) -> None:
    group = await app.group(
        [kinds.work.call(1)], then=kinds.report.call("sum"), on_failure=kinds.alarm.call()
    )
    async with working(app):
        assert await group.result(PATIENCE) == "sum: 1 of 1"
    assert [name for name, _ in kinds.told] == ["report"]


async def test_an_empty_group_is_followed_at_once(app: App, kinds: Kinds) -> None:
    async with working(app):
        group = await app.group([], then=kinds.report.call("none"), on_failure=kinds.alarm.call())
        assert await group.result(PATIENCE) == "none: 0 of 0"


async def test_a_group_that_nothing_follows_ends_with_its_members(app: App, kinds: Kinds) -> None:
    group = await app.group([kinds.work.call(1), kinds.work.call(-1)])
    async with working(app):
        status = await group.wait(PATIENCE)
        assert await group.result(PATIENCE) is None  # type: ignore[func-returns-value]
    assert (status.state, status.then_job) == ("ended", None)


async def test_results_come_in_the_order_of_the_calls_whatever_the_page(app: App, kinds: Kinds) -> None:
    calls = [kinds.work.using(priority=9 - number).call(number) for number in range(7)]
    group = await app.group([*calls, kinds.work.call(-1)], then=kinds.report.call("sum"))
    async with working(app):
        await group.result(PATIENCE)
    for page in (1, 3, 8, 1_000):
        members = [member async for member in group.results(page=page)]
        assert [(each.place, each.state, each.result) for each in members[:7]] == [
            (number, "succeeded", 2 * number) for number in range(7)
        ]
        assert len(members) == 8, "what follows is no member"
        assert members[7].state == "failed"
        assert (members[7].error or {})["type"] == "ValueError"
    assert [each.place async for each in group.results(first=5)] == [5, 6, 7]
    with pytest.raises(InvalidInput, match="first is -1"):
        await anext(group.results(first=-1))


async def test_what_follows_reads_the_results_of_the_members(app: App, kinds: Kinds) -> None:
    @app.job
    async def total(ctx: Context) -> int:
        assert ctx.group is not None
        group = app.group_handle(ctx.group.id)
        return sum([member.result async for member in group.results(page=2)])

    group = await app.group([kinds.work.call(number) for number in range(5)], then=total.call())
    async with working(app):
        assert await group.result(PATIENCE) == 20


async def test_members_are_jobs_of_any_kinds_with_their_own_options(app: App, kinds: Kinds, dsn: str) -> None:
    @app.job(queue="mail", tags=["letters"])
    async def mail() -> str:
        return "sent"

    calls = [mail.call(), kinds.work.using(priority=1, tags=["vip"]).call(4)]
    group = await app.group(calls, tags=["night"])
    rows = all_of(dsn, "select kind, queue, priority, tags, parent from holdfast.job order by id")
    assert rows == [("mail", "mail", 5, ["letters"], group.id), ("work", "default", 1, ["vip"], group.id)]
    assert [each.id for each in await app.groups.list(tags=["night"])] == [group.id]
    assert await app.groups.list(tags=["day"]) == []


async def test_a_group_is_written_with_the_transaction_of_its_caller_or_not_at_all(
    app: App, kinds: Kinds, dsn: str
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        group = await app.group([kinds.work.call(1)], then=kinds.report.call("sum"), conn=conn)
        with pytest.raises(GroupNotFound):
            await group.status()
        await conn.rollback()
        kept = await app.group([kinds.work.call(1)], then=kinds.report.call("sum"), conn=conn)
    assert all_of(dsn, "select id from holdfast.job_group") == [(kept.id,)]
    assert all_of(dsn, "select count(*) from holdfast.group_member") == [(1,)]
    async with working(app):
        assert await kept.result(PATIENCE) == "sum: 1 of 1"


async def test_calls_that_fail_halfway_write_nothing(app: App, kinds: Kinds, dsn: str) -> None:
    def calls() -> Iterator[Call[int]]:
        for number in range(1_500):
            yield kinds.work.call(number)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        await app.group(calls())
    strange: Any = 5
    with pytest.raises(InvalidInput, match="not a call of this app's jobs"):
        await app.group([kinds.work.call(1), strange])
    with pytest.raises(InvalidInput, match="not a call of this app's jobs"):
        await app.group([kinds.work.call(1)], then=strange)
    assert all_of(
        dsn, "select (select count(*) from holdfast.job), (select count(*) from holdfast.job_group)"
    ) == [(0, 0)]


async def test_what_follows_has_its_own_options(app: App, kinds: Kinds, dsn: str) -> None:
    then = kinds.report.using(queue="late", priority=2, delay="1h", tags=["sum"], deadline="2h").call("sum")
    group = await app.group([kinds.work.call(1)], then=then)
    async with working(app):
        await group.wait(PATIENCE)
    [row] = all_of(
        dsn,
        "select j.queue, j.priority, j.tags, s.run_at - g.closed_at, j.deadline_at - g.closed_at"
        "  from holdfast.job_group g join holdfast.job j on j.id = g.then_job"
        "  join holdfast.scheduled s on s.job = j.id",
    )
    queue, priority, tags, delay, deadline = row
    assert (queue, priority, tags) == ("late", 2, ["sum"])
    assert abs(delay - timedelta(hours=1)) < timedelta(seconds=5), "from the end of the members on"
    assert deadline - delay == timedelta(hours=1)
    with pytest.raises(InvalidInput, match="leave it out"):
        await app.group([], then=kinds.report.using(unique="one", on_conflict="raise").call("sum"))


async def test_a_job_that_was_there_before_is_a_guest_that_the_group_waits_for(
    app: App, kinds: Kinds
) -> None:
    before = await kinds.work.using(unique="seven", delay="1h").enqueue(7)
    group = await app.group(
        [kinds.work.call(1), kinds.work.using(unique="seven").call(8), kinds.work.call(2)],
        then=kinds.report.call("sum"),
    )
    members = [member async for member in group.results()]
    assert [each.is_guest for each in members] == [False, True, False]
    assert members[1].job == before.id
    async with working(app):
        await until(lambda: _has_ended(group, 2))
        assert not (await group.status()).is_closed
        await app.jobs.reschedule(before.id, "0s")
        assert await group.result(PATIENCE) == "sum: 3 of 3"
    assert [member.result async for member in group.results()] == [2, 14, 4]


async def test_a_key_that_must_not_be_taken_refuses_the_whole_group(app: App, kinds: Kinds, dsn: str) -> None:
    await kinds.work.using(unique="seven", delay="1h").enqueue(7)
    taken = kinds.work.using(unique="seven", on_conflict="raise").call(8)
    with pytest.raises(DuplicateJob):
        await app.group([kinds.work.call(1), taken])
    assert all_of(dsn, "select count(*) from holdfast.job_group") == [(0,)]
    assert all_of(dsn, "select count(*) from holdfast.job") == [(1,)]


async def test_a_waiting_job_that_a_member_replaces_is_a_guest_with_new_contents(
    app: App, kinds: Kinds
) -> None:
    before = await kinds.work.using(unique="seven", delay="1h").enqueue(7)
    replacing = kinds.work.using(unique="seven", on_conflict="replace").call(8)
    group = await app.group([kinds.work.call(1), replacing])
    async with working(app):
        await group.wait(PATIENCE)
    assert [(each.job == before.id, each.result) async for each in group.results()] == [
        (False, 2),
        (True, 16),
    ]


async def test_one_job_may_stand_for_two_calls(app: App, kinds: Kinds) -> None:
    same = kinds.work.using(unique="same")
    group = await app.group([same.call(1), same.call(2)], then=kinds.report.call("sum"))
    async with working(app):
        assert await group.result(PATIENCE) == "sum: 2 of 2"
    assert [each.result async for each in group.results()] == [2, 2]


async def test_a_cancelled_group_cancels_its_members_and_nothing_follows(
    app: App, kinds: Kinds, dsn: str
) -> None:
    guest = await kinds.work.using(unique="guest", delay="1h").enqueue(7)
    calls = [
        kinds.work.call(1),
        kinds.work.using(delay="1h").call(2),
        kinds.work.using(unique="guest").call(3),
    ]
    group = await app.group(calls, then=kinds.report.call("sum"), on_failure=kinds.alarm.call())
    assert (await group.cancel("not wanted")).state == "cancelling"
    assert (await app.handle(guest.id).status()).state == "scheduled", "somebody else wants it"
    assert (await guest.cancel()) == "cancelled"
    async with working(app):
        with pytest.raises(GroupFailed, match="was cancelled"):
            await group.result(PATIENCE)
    status = await group.status()
    assert (status.state, status.counts.cancelled, status.cancel_reason) == ("cancelled", 3, "not wanted")
    assert kinds.told == []
    assert all_of(dsn, "select action, target, reason from holdfast.audit where target like 'group%'") == [
        ("cancel", f"group {group.id}", "not wanted")
    ]
    assert (await group.cancel()).cancel_reason == "not wanted", "once is enough"


async def test_cancelling_on_a_callers_connection_is_done_by_the_leader_after_the_commit(
    app: App, kinds: Kinds, dsn: str
) -> None:
    group = await app.group([kinds.work.using(delay="1h").call(number) for number in range(3)])
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await group.cancel(conn=conn)
        assert (await group.status()).state == "running"
        await conn.commit()
    assert all_of(dsn, "select count(*) from holdfast.scheduled") == [(3,)]
    async with working(app):
        await group.wait(PATIENCE)
    assert (await group.status()).counts == GroupCounts(3, cancelled=3)


async def test_running_members_of_a_cancelled_group_are_asked_to_stop(app: App, kinds: Kinds) -> None:
    running = asyncio.Event()

    @app.job(retry=ONCE)
    async def endless() -> None:
        running.set()
        await asyncio.sleep(3600)

    group = await app.group([endless.call()], then=kinds.report.call("sum"))
    async with working(app):
        await asyncio.wait_for(running.wait(), 30)
        await group.cancel()
        await until(lambda: _is_final(group))
    assert (await group.status()).counts.cancelled == 1
    assert kinds.told == []


async def test_cancelling_while_the_last_job_waits_cancels_that_one(app: App, kinds: Kinds) -> None:
    group = await app.group([kinds.work.call(1)], then=kinds.report.using(delay="1h").call("sum"))
    async with working(app):
        status = await group.wait(PATIENCE)
        assert (status.state, status.then_job is not None) == ("finishing", True)
        await group.cancel()
        await until(lambda: _is_final(group))
        assert (await app.handle(status.then_job or 0).status()).state == "cancelled"
    assert (await group.status()).state == "cancelled"


async def test_a_failed_member_that_is_retried_in_time_is_waited_for_again(app: App) -> None:
    is_broken = True
    told: list[EndedGroup | None] = []

    @app.job(retry=ONCE)
    async def shaky() -> str:
        if is_broken:
            raise ValueError("broken")
        return "fine"

    @app.job
    async def report(ctx: Context) -> None:
        told.append(ctx.group)

    @app.job
    async def slow() -> None: ...

    group = await app.group([shaky.call(), slow.using(delay="1h").call()], then=report.call())
    shaken, late = [member.job async for member in group.results()]
    async with working(app):
        await until(lambda: _has_ended(group, 1))
        assert (await group.status()).counts.failed == 1
        is_broken = False
        await app.jobs.retry(shaken)
        await until(lambda: _counts(group, GroupCounts(2, succeeded=1)))
        await app.jobs.reschedule(late, "0s")
        await group.result(PATIENCE)
    assert [each and each.counts for each in told] == [GroupCounts(2, succeeded=2)]


async def _counts(group: Group[Any], counts: GroupCounts) -> bool:
    return (await group.status()).counts == counts


async def test_a_member_that_is_retried_after_the_end_changes_nothing_more(app: App) -> None:
    runs: list[int] = []
    is_broken = True

    @app.job(retry=ONCE)
    async def shaky() -> None:
        if is_broken:
            raise ValueError("broken")

    @app.job
    async def report(ctx: Context) -> None:
        runs.append(ctx.job.id)

    group = await app.group([shaky.call()], then=report.call())
    async with working(app):
        await group.result(PATIENCE)
        is_broken = False
        [member] = [each.job async for each in group.results()]
        await app.jobs.retry(member)
        await app.handle(member).result(PATIENCE)
    assert len(runs) == 1
    assert (await group.status()).counts == GroupCounts(1, failed=1)
    assert [each.state async for each in group.results()] == ["succeeded"], "its own state is shown"


async def test_members_that_are_kept_for_no_time_are_counted_and_their_results_stay_until_the_end(
    app: App, kinds: Kinds
) -> None:
    @app.job
    async def total(ctx: Context) -> int:
        assert ctx.group is not None
        return sum([each.result async for each in app.group_handle(ctx.group.id).results()])

    group = await app.group([kinds.work.using(keep="0s").call(n) for n in range(3)], then=total.call())
    async with working(app):
        assert await group.result(PATIENCE) == 6


async def test_a_result_of_then_that_failed_is_its_error(app: App, kinds: Kinds) -> None:
    @app.job(retry=ONCE)
    async def breaks() -> str:
        raise ValueError("no report")

    group = await app.group([kinds.work.call(1)], then=breaks.call())
    async with working(app):
        with pytest.raises(JobEnded, match="no report"):
            await group.result(PATIENCE)


async def test_the_blocking_methods_do_the_same(dsn: str) -> None:
    def blocking() -> tuple[str, list[Member], str]:
        app = App(dsn)
        kinds = Kinds.of(app)
        group = app.group_sync([kinds.work.call(3), kinds.work.call(4)], then=kinds.report.call("sum"))
        group.wait_sync(PATIENCE)
        result = group.result_sync(PATIENCE)
        state = group.status_sync().state
        other = app.group_sync([kinds.work.using(delay="1h").call(1)])
        assert other.cancel_sync().state in ("cancelling", "cancelled")
        with pytest.raises(GroupTimeout):
            app.group_sync([kinds.work.using(delay="1h").call(1)]).result_sync("1ms")
        members = list(group.results_sync(page=1))
        app.close_sync()
        return result, members, state

    async with App(dsn) as app:
        Kinds.of(app)
        async with working(app):
            result, members, state = await asyncio.to_thread(blocking)
    assert (result, state) == ("sum: 2 of 2", "ended")
    assert [each.result for each in members] == [6, 8]


async def test_waiting_for_a_group_must_not_block_the_event_loop(app: App, kinds: Kinds) -> None:
    group = await app.group([kinds.work.call(1)])
    with pytest.raises(InvalidInput, match=r"await group\.wait"):
        group.wait_sync()
    with pytest.raises(InvalidInput, match=r"await group\.result"):
        group.result_sync()


async def test_names_and_tags_are_checked_before_anything_is_written(
    app: App, kinds: Kinds, dsn: str
) -> None:
    wrong: Any = "night"
    with pytest.raises(InvalidInput, match="tags is 'night'"):
        await app.group([kinds.work.call(1)], tags=wrong)
    with pytest.raises(InvalidInput, match="name"):
        await app.group([kinds.work.call(1)], name="")
    assert all_of(dsn, "select count(*) from holdfast.job") == [(0,)]


async def test_a_sweep_closes_groups_that_nothing_told_of(app: App, kinds: Kinds, dsn: str) -> None:
    group = await app.group([kinds.work.call(1)], then=kinds.report.call("sum"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("delete from holdfast.ready")
        connection.execute(
            "insert into holdfast.ledger (job, run, finished_at, outcome, attempt, is_final, queue, kind)"
            " select id, 1, now(), 'succeeded', 1, true, queue, kind from holdfast.job"
        )
    producer = await connections_of(app).opened()
    did = await GroupCloser(producer.database, app.schema, Retention()).once()
    assert did.count == 1
    assert (await group.status()).state == "finishing"


async def test_headers_of_middleware_reach_members_and_what_follows(dsn: str) -> None:
    class Tenants(Middleware):
        @contextmanager
        def enqueuing(self, jobs: Sequence[OutgoingJob]) -> Iterator[None]:
            for job in jobs:
                job.headers["tenant"] = "acme"
            yield
            seen.extend((job.kind, job.id is not None) for job in jobs)

    seen: list[tuple[str, bool]] = []
    headers: list[dict[str, str]] = []
    async with App(dsn, middleware=[Tenants()]) as app:

        @app.job
        async def work(ctx: Context) -> None:
            headers.append(dict(ctx.headers))

        @app.job
        async def report(ctx: Context) -> None:
            assert ctx.group is not None
            headers.append(dict(ctx.headers))

        group = await app.group([work.call(), work.call()], then=report.call())
        async with working(app):
            await group.result(PATIENCE)
    assert headers == [{"tenant": "acme"}] * 3
    assert sorted(seen) == [("report", False), ("work", True), ("work", True)]


async def test_what_follows_may_be_a_job_that_is_there_already(app: App, kinds: Kinds) -> None:
    before = await kinds.alarm.using(unique="alarm", delay="1h").enqueue()
    group = await app.group([kinds.work.call(1)], then=kinds.alarm.using(unique="alarm").call())
    async with working(app):
        assert (await group.wait(PATIENCE)).then_job == before.id
        await app.jobs.reschedule(before.id, "0s")
        assert await group.result(PATIENCE) == "rung"


async def test_a_group_that_is_not_there_is_told(app: App) -> None:
    with pytest.raises(GroupNotFound, match="group 99 does not exist"):
        await app.group_handle(99).status()
    with pytest.raises(GroupNotFound):
        await app.groups.show(99)
    with pytest.raises(GroupNotFound):
        await app.groups.cancel(99)


async def test_members_and_what_follows_wait_at_the_gates_of_their_limits(app: App) -> None:
    most = running = 0

    @app.job(limit=Limit(total=1))
    async def narrow(number: int) -> int:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return number

    group = await app.group([narrow.call(number) for number in range(8)], then=narrow.call(42))
    async with working(app):
        assert await group.result(PATIENCE) == 42
    assert most == 1
    assert (await group.status()).counts == GroupCounts(8, 8)
    assert (await app.fsck()).is_sound


async def test_a_cancelled_group_cancels_members_at_a_gate(app: App) -> None:
    @app.job(limit=Limit(total=1))
    async def narrow(number: int) -> int:
        return number

    group = await app.group([narrow.call(number) for number in range(3)])
    await group.cancel()
    async with working(app):
        await group.wait(PATIENCE)
    assert (await group.status()).counts == GroupCounts(3, cancelled=3)
