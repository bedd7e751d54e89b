"""There are only so many child processes, and a job for one is claimed only when one is free."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from flows.isolated_steps import where
from holdfast import App, Flow, Retry
from holdfast.errors import JobEnded
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes.cores import cores
from storage.interleaving.table_invariants import sound_at_the_end
from support.waiting import until
from worker import handlers_for_processes as handlers
from worker.handler_runs import children, numbers_in

ONCE = Retry(max_attempts=1)


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    with sound_at_the_end(dsn):
        async with App(dsn) as app:
            yield app


def states(dsn: str) -> dict[str, int]:
    with psycopg.connect(dsn) as connection:
        return dict(connection.execute("select state, count(*) from holdfast.jobs group by 1").fetchall())


@pytest.mark.machine  # starts many interpreters
async def test_forty_jobs_that_need_a_core_each_all_succeed_at_once(
    app: App, dsn: str, tmp_path: Path
) -> None:
    burn = app.job(isolate="process", timeout="3s", retry=ONCE)(handlers.burn)
    starts = tmp_path / "starts"
    jobs = [await burn.enqueue(0.1, str(starts)) for _ in range(40)]
    most = 0

    async def count() -> None:
        nonlocal most
        while True:
            most = max(most, len(children()))
            await asyncio.sleep(0.01)

    counting = asyncio.create_task(count())
    async with app.worker():
        pids = [await job.result(timeout="120s") for job in jobs]
    counting.cancel()
    assert len(starts.read_text("utf-8").split()) == 40, "one attempt each"
    assert states(dsn) == {"succeeded": 40}
    assert 1 <= most <= cores()
    assert len(set(pids)) <= cores()


async def test_other_jobs_of_the_queue_run_while_no_child_is_free_and_none_is_claimed_for_one(
    app: App, dsn: str, tmp_path: Path
) -> None:
    hold = app.job(isolate="process")(handlers.hold)

    @app.job
    async def quick(number: int) -> int:
        return number

    started, release = tmp_path / "started", tmp_path / "release"
    async with app.worker(options=WorkerOptions(children=1)):
        held = [await hold.enqueue(str(started), str(release)) for _ in range(30)]
        await until(started.exists)
        for number in range(120):
            assert await (await quick.enqueue(number)).result(timeout="30s") == number
        assert states(dsn) == {"succeeded": 120, "running": 1, "ready": 29}
        assert len(children()) == 1
        release.touch()
        for job in held:
            await job.result(timeout="60s")


async def test_a_job_for_a_child_gets_its_turn_while_others_keep_coming(app: App, tmp_path: Path) -> None:
    burn = app.job(isolate="process")(handlers.burn)
    more = True

    @app.job
    async def busy() -> None:
        if more:
            await busy.enqueue()

    async with app.worker(options=WorkerOptions(children=1, queues={"default": 4})):
        for _ in range(50):
            await busy.enqueue()
        job = await burn.enqueue(0.01, str(tmp_path / "starts"))
        await job.result(timeout="60s")
        more = False


async def test_steps_and_jobs_share_the_children_and_both_come_to_an_end(app: App, tmp_path: Path) -> None:
    burn = app.job(isolate="process")(handlers.burn)

    @app.flow
    async def apart(flow: Flow, number: int) -> int:
        both = await flow.gather(
            *(flow.step(f"where {n}", where, number, n, isolate="process", timeout="10s") for n in range(2))
        )
        return sum(each[1] for each in both)

    jobs = [await burn.enqueue(0.02, str(tmp_path / "starts")) for _ in range(10)]
    flows = [await apart.enqueue(number) for number in range(10)]
    async with app.worker(options=WorkerOptions(children=1)):
        for number, flow in enumerate(flows):
            assert await flow.result(timeout="60s") == 2 * number + 1
        pids = {await job.result(timeout="60s") for job in jobs}
        assert children() == list(pids)


async def test_the_start_of_a_child_is_no_part_of_a_jobs_time(app: App, dsn: str) -> None:
    from worker.slow_to_import import quick

    job = app.job(isolate="process", timeout="2s", retry=ONCE)(quick)
    async with app.worker():
        assert await (await job.enqueue()).result(timeout="60s") == "done"


async def test_a_child_with_another_memory_limit_takes_the_place_of_an_idle_one(
    app: App, tmp_path: Path
) -> None:
    free = app.job(isolate="process", name="free")(handlers.burn)
    bound = app.job(isolate="process", name="bound", memory_limit=1024**3)(handlers.burn)
    async with app.worker(options=WorkerOptions(children=1)):
        starts = str(tmp_path / "starts")
        first = await (await free.enqueue(0.01, starts)).result(timeout="60s")
        second = await (await bound.enqueue(0.01, starts)).result(timeout="60s")
        assert first != second
        assert children() == [second]


async def test_a_job_that_is_killed_gives_its_child_back(app: App, tmp_path: Path) -> None:
    hold = app.job(isolate="process", timeout="1s", retry=ONCE)(handlers.hold)
    burn = app.job(isolate="process")(handlers.burn)
    async with app.worker(options=WorkerOptions(children=1)):
        stuck = await hold.enqueue(str(tmp_path / "started"), str(tmp_path / "never"))
        job = await burn.enqueue(0.01, str(tmp_path / "starts"))
        await job.result(timeout="60s")
        with pytest.raises(JobEnded, match="took longer than its timeout of 1s"):
            await stuck.result(timeout="10s")
        assert len(await numbers_in(tmp_path / "started")) == 1


def test_the_cores_of_a_container_are_those_of_its_quota(tmp_path: Path) -> None:
    here = cores(tmp_path)
    assert here >= 1, "nothing is told of a quota"
    groups = tmp_path / "sys/fs/cgroup"
    (tmp_path / "proc/self").mkdir(parents=True)
    (groups / "shop/web").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/shop/web\n", "utf-8")
    (groups / "shop/web/cpu.max").write_text("max 100000\n", "utf-8")
    assert cores(tmp_path) == here
    (groups / "shop/cpu.max").write_text("50000 100000\n", "utf-8")
    assert cores(tmp_path) == 1, "a group is bound by the one above it"
    (groups / "shop/cpu.max").unlink()
    (tmp_path / "proc/self/cgroup").write_text("4:cpu,cpuacct:/only/on/the/host\n3:memory:/\n", "utf-8")
    (groups / "cpu,cpuacct").mkdir()
    (groups / "cpu,cpuacct/cpu.cfs_period_us").write_text("100000\n", "utf-8")
    (groups / "cpu,cpuacct/cpu.cfs_quota_us").write_text("-1\n", "utf-8")
    assert cores(tmp_path) == here
    (groups / "cpu,cpuacct/cpu.cfs_quota_us").write_text("90000\n", "utf-8")
    assert cores(tmp_path) == 1
