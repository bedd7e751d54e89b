"""`app.workers`: which workers there are, whether they live, and what they run."""

import os
import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App
from holdfast.errors import InvalidInput, WorkerNotFound
from holdfast.storage.workers import register
from support.blocking_in_a_loop import both_colours
from support.waiting import until


def stored(dsn: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


async def registered(app: App, pid: int) -> int:
    [worker] = await app.run(
        register(app.schema, host="web-1", pid=pid, version="1", queues=["mail"], kinds=["send"], slots=10)
    )
    return worker


@both_colours
async def test_a_worker_is_shown_with_what_it_runs(app: App, dsn: str) -> None:
    release = threading.Event()

    @app.job(queue="mail")
    def send(number: int) -> None:  # in a thread, which a cancel request cannot stop
        release.wait(60)

    jobs = [(await send.enqueue(number)).id for number in range(5)]
    async with app.worker(queues={"mail": 7}):

        async def are_running() -> bool:
            [worker] = await app.workers.list()
            return worker.used == len(jobs) and worker.is_leader

        await until(are_running)
        await app.jobs.cancel(jobs[0])
        [listed] = await app.workers.list()
        shown = await app.workers.show(listed.id)
        blocking = app.workers.show_sync(listed.id)
        release.set()
    assert (listed.pid, listed.state, listed.slots, listed.used) == (os.getpid(), "live", 7, 5)
    assert (listed.queues, listed.kinds, listed.lost_at) == (("mail",), ("send",), None)
    assert [run.job for run in listed.running] == jobs[:3], "a list names a few"
    assert [run.job for run in shown.running] == [run.job for run in blocking.running] == jobs
    assert [run.is_cancelling for run in shown.running] == [True, False, False, False, False]
    assert {(run.kind, run.attempt) for run in shown.running} == {("send", 1)}
    assert shown.beat_age == shown.now - shown.beat_at < timedelta(minutes=1)
    assert await app.workers.list() == [], "it has stopped"
    with pytest.raises(WorkerNotFound, match=f"no worker {listed.id}"):
        await app.workers.show(listed.id)


async def test_silent_and_lost_workers_are_told_apart(app: App, dsn: str) -> None:
    live, silent, lost = [await registered(app, pid) for pid in range(3)]
    overdue = "update holdfast.worker set expires_at = now() - interval '1s'"
    stored(dsn, f"{overdue} where id in ({silent}, {lost}) returning 1")
    stored(dsn, f"update holdfast.worker set lost_at = now() where id = {lost} returning 1")
    stored(
        dsn,
        f"insert into holdfast.leader (worker, term, expires_at) values ({lost}, 1, now() - interval '1s')"
        " returning 1",
    )
    found = await app.workers.list()
    assert {worker.id: worker.state for worker in found} == {live: "live", silent: "silent", lost: "lost"}
    assert not any(worker.is_leader for worker in found), "its lead has run out"


@both_colours
async def test_pages_go_on_behind_their_last_worker(app: App) -> None:
    ids = [await registered(app, pid) for pid in range(3)]
    first = await app.workers.list(limit=2)
    assert [worker.id for worker in first] == ids[:2]
    assert [worker.id for worker in app.workers.list_sync(after=first[-1])] == ids[2:]


async def test_a_lease_of_an_older_release_has_the_kind_of_its_job(app: App, dsn: str) -> None:
    @app.job
    async def send() -> None: ...

    job, worker = (await send.enqueue()).id, await registered(app, 1)
    stored(
        dsn,
        "insert into holdfast.lease (worker, job, run, started_at, timeout_at, attempt)"
        f" values ({worker}, {job}, 1, now(), now(), 1) returning 1",
    )
    assert [run.kind for run in (await app.workers.show(worker)).running] == ["send"]


async def test_bad_input_is_refused(app: App) -> None:
    for wrong in ("1", True, 2**63, None):
        with pytest.raises(InvalidInput, match="worker"):
            await app.workers.show(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="WorkerRecord"):
        await app.workers.list(after=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="limit"):
        await app.workers.list(limit=0)
