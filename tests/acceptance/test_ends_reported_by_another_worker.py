"""Ends that the job's own worker cannot report: the log has them at once, hooks are called at least once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import NO_MORE, ONCE_MORE, working
from acceptance.workers import Workers
from holdfast import App, Context, Handle, Job
from holdfast.errors import JobEnded
from holdfast.storage.notices import take_notices
from support.waiting import until

Said = list[tuple[str, int, str]]


@pytest.fixture
def said() -> Said:
    """What the hooks of `app` were told: hook, job, code."""
    return []


@pytest.fixture
async def app(dsn: str, said: Said) -> AsyncIterator[App]:
    async with App(dsn, **_hooks(said)) as app:
        yield app


def _hooks(said: Said) -> dict[str, Any]:
    def note(hook: str) -> Any:
        def told(ctx: Context, error: BaseException) -> None:
            assert isinstance(error, JobEnded)
            said.append((hook, ctx.job.id, str(error.error.get("code"))))

        return told

    return {hook: note(hook) for hook in ("on_failure", "on_dead", "on_expired", "on_cancelled")}


def hanging(app: App) -> Job[[], None]:
    """A job that never ends, and is not tried again."""

    @app.job(retry=NO_MORE)
    async def hang() -> None:
        await asyncio.Event().wait()

    return hang


def waiting(app: App) -> Job[[], None]:
    @app.job
    async def later() -> None: ...

    return later


async def cancelled_later(app: App) -> Handle[None]:
    """A job that was cancelled while it waited, and whose hook no worker has been told of yet."""
    handle = await waiting(app).using(delay="1h").enqueue()
    assert await handle.cancel() == "cancelled"
    return handle


def check_taken_away(caplog: pytest.LogCaptureFixture, job: int, worker: int | None) -> None:
    [line] = [line for line in caplog.messages if line.startswith("run taken away, failed")]
    assert f"job={job} kind=hang" in line
    assert f"worker={worker} " in line


def notices(books: Books) -> int:
    return int(books.value("select count(*) from holdfast.notice"))


async def test_a_job_that_died_with_its_worker_is_told_to_its_hooks_and_to_the_log(
    app: App, said: Said, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    hang = hanging(app)
    async with working(app) as worker:
        handle = await hang.enqueue()
        await until(lambda: books.leases() == 1, "it runs")
        former = worker.id
        books.run("update holdfast.worker set lost_at = now()")
        await until(lambda: len(said) == 2, "hooks are told")
        await until(lambda: not notices(books), "the notice is gone")
    assert said == [("on_failure", handle.id, "lease_lost"), ("on_dead", handle.id, "lease_lost")]
    check_taken_away(caplog, handle.id, former)


async def test_an_attempt_that_was_lost_and_is_tried_again_is_told_as_a_failure(
    app: App, said: Said, books: Books
) -> None:
    is_first = True

    @app.job(retry=ONCE_MORE)
    async def hang_once() -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            await asyncio.Event().wait()

    async with working(app):
        handle = await hang_once.enqueue()
        await until(lambda: books.leases() == 1, "it runs")
        books.run("update holdfast.worker set lost_at = now()")
        await handle.result("20s")
        await until(lambda: said, "the hook is told")
    assert said == [("on_failure", handle.id, "lease_lost")]


async def test_what_expires_or_is_cancelled_while_it_waits_is_told_to_its_own_hooks(
    app: App, said: Said, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    later = waiting(app)
    late = await later.using(delay="200ms", deadline="250ms").enqueue()
    unwanted = await later.using(delay="1h").enqueue()
    books.run("update holdfast.scheduled set run_at = run_at + interval '1 h' where job = %s", late.id)
    assert await app.jobs.cancel([unwanted.id], reason="changed my mind") == {unwanted.id: "cancelled"}
    async with working(app):
        await until(lambda: len(said) == 2, "hooks are told")
    assert sorted(said) == [
        ("on_cancelled", unwanted.id, "cancelled"),
        ("on_expired", late.id, "deadline_expired"),
    ]
    [line] = [line for line in caplog.messages if line.startswith("job expired")]
    assert f"job={late.id} kind=later" in line


async def test_a_cancelled_run_is_told_to_its_hook_by_its_own_worker(dsn: str, books: Books) -> None:
    said: Said = []

    def told(ctx: Context, error: BaseException) -> None:
        said.append(("on_cancelled", ctx.job.id, type(error).__name__))

    async with App(dsn, on_cancelled=told) as app:
        hang = hanging(app)
        async with working(app):
            handle = await hang.enqueue()
            await until(lambda: books.leases() == 1, "it runs")
            await app.jobs.cancel([handle.id])
            await until(lambda: said, "the hook is told")
            assert notices(books) == 0
    assert said == [("on_cancelled", handle.id, "CancelledError")]


async def test_a_kind_without_hooks_leaves_no_notice(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        waiting_job = waiting(app)
        async with working(app):
            handle = await waiting_job.using(delay="1h").enqueue()
            await app.jobs.cancel([handle.id])
            assert notices(books) == 0


async def test_a_notice_whose_teller_was_killed_is_told_by_another(
    app: App, said: Said, books: Books
) -> None:
    handle = await cancelled_later(app)
    killed = books.value(
        "insert into holdfast.worker"
        " (host, pid, version, queues, kinds, slots, started_at, beat_at, expires_at)"
        " values ('h', 1, '', '{}', '{later}', 1, now(), now(), now() + interval '1 s') returning id"
    )
    [taken] = await app.run(take_notices(app.schema, worker=killed, kinds=["later"]))
    assert taken.job == handle.id
    assert not await app.run(take_notices(app.schema, worker=killed + 1, kinds=["later"]))
    async with working(app):
        await until(lambda: said, "another tells it")
    assert said == [("on_cancelled", handle.id, "cancelled")]


async def test_a_notice_that_five_workers_ended_on_is_given_up(
    app: App, said: Said, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    handle = await cancelled_later(app)
    books.run("update holdfast.notice set tries = 5")
    async with working(app):
        await until(lambda: not notices(books), "the notice is gone")
    assert said == []
    [line] = [line for line in caplog.messages if line.startswith("hooks given up")]
    assert f"job={handle.id} kind=later outcome=cancelled" in line


@pytest.mark.requirement("S2.35")
async def test_the_hooks_of_a_job_whose_worker_was_killed_are_called_by_another_worker(
    shop: Any, books: Books, workers: Workers
) -> None:
    one, other = await workers.start_several(2, lease=2)
    handle = await shop.hang_once_and_for_all.enqueue()
    await until(lambda: books.lines("run", job=handle.id), "it runs")
    [run] = books.lines("run", job=handle.id)
    killed, alive = (one, other) if run.pid == one.pid else (other, one)
    killed.kill()
    await until(lambda: books.lines("dead", job=handle.id), "its hook is called")
    [told] = books.lines("dead", job=handle.id)
    assert (told.pid, told.run) == (alive.pid, run.run)
    [line] = alive.lines("run taken away, failed")
    assert f"job={handle.id} kind=hang_once_and_for_all" in line
    assert f"worker={killed.id} " in line
    assert f"pid={killed.pid} " in line
    await alive.stop()


async def test_a_run_that_the_leader_takes_away_past_its_timeout_is_told_to_its_hooks(
    app: App, said: Said, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    hang = hanging(app)
    async with working(app, is_leading_allowed=False) as stuck:
        handle = await hang.enqueue()
        await until(lambda: books.leases() == 1, "it runs")
        books.run("update holdfast.lease set timeout_at = now() - interval '1 day'")
        async with working(app):
            await until(lambda: len(said) == 2, "hooks are told")
        former = stuck.id
    assert said == [("on_failure", handle.id, "stale_timeout"), ("on_dead", handle.id, "stale_timeout")]
    check_taken_away(caplog, handle.id, former)


@pytest.mark.parametrize("damage", ["error = 'null'", "error = '[7]'", "error = '\"x\"'", "tries = 32767"])
async def test_a_damaged_notice_ends_no_worker_and_silences_no_other_hook(
    app: App, said: Said, books: Books, damage: str
) -> None:
    later = waiting(app)
    damaged, sound = await later.enqueue(), await later.enqueue()
    assert await app.jobs.cancel([damaged.id, sound.id]) == {damaged.id: "cancelled", sound.id: "cancelled"}
    books.run(f"update holdfast.notice set {damage} where job = {damaged.id}")
    async with working(app):
        await until(lambda: not notices(books), "every notice is gone")
        await (await later.enqueue()).result(timeout="20s")
    assert ("on_cancelled", sound.id, "cancelled") in said
