"""A worker is killed after every write of a group's life, in turn: what follows is enqueued once, and is told
the same.
"""

import asyncio
from typing import Any

import psycopg

from flows.fast_worker import PATIENCE
from flows.killed_workers import Kill, forget_the_dead, worker_until_killed
from holdfast import App, Context, Group, Retry
from storage.interleaving.table_invariants import flaws

NEVER_MIND = Retry(max_attempts=100, backoff="0s")


async def lived(dsn: str, deaths: list[int]) -> tuple[str, list[Kill]]:
    """Write a group, and let one worker after the other run it, until each is killed; the last one lives."""
    kills: list[Kill] = []
    async with App(dsn) as app:

        @app.job(retry=NEVER_MIND)
        async def work(number: int) -> int:
            return number

        @app.job(retry=Retry(max_attempts=1))
        async def breaks() -> None:
            raise ValueError("always")

        @app.job(retry=NEVER_MIND)
        async def report(ctx: Context) -> str:
            assert ctx.group is not None
            return f"{ctx.group.counts}"

        # One that a killed worker had begun is failed by its rescue: it ends all the same.
        group = await app.group([work.call(1), work.call(2), breaks.call()], then=report.call())
        for death in [*deaths, None]:
            kill = Kill(death)
            kills.append(kill)
            try:
                async with worker_until_killed(app, kill):
                    if await is_over(group, kill):
                        return await group.result("1s"), kills
            finally:
                await forget_the_dead(dsn)
    raise AssertionError("the last worker ended too early")


async def is_over(group: Group[Any], kill: Kill) -> bool:
    """Whether the group has ended, and not the worker. Asked after each write: none ends without one."""
    async with asyncio.timeout(PATIENCE):
        while True:
            kill.wrote.clear()
            if (await group.status()).is_final:
                return True
            if kill.killed.is_set():
                return False
            await kill.wrote.wait()


def check(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        assert flaws(connection) == {}
        followers = connection.execute(
            "select parent, count(*) from holdfast.job where kind = 'report' group by 1"
        ).fetchall()
        [(groups,)] = connection.execute("select count(*) from holdfast.job_group").fetchall()
    assert [count for _, count in followers] == [1] * groups


async def test_a_worker_killed_after_any_write_leaves_what_an_undisturbed_one_does(dsn: str) -> None:
    expected, [undisturbed] = await lived(dsn, [])
    assert "succeeded=2, failed=1" in expected
    assert {"group_count", "group_close"} <= set(undisturbed.written)
    for death in range(1, len(undisturbed.written) + 1):
        told, kills = await lived(dsn, [death])
        assert told == expected, f"killed after {kills[0].written}"
        check(dsn)


async def test_a_group_survives_one_death_after_the_other(dsn: str) -> None:
    told, _ = await lived(dsn, [1, 2, 3, 4, 1, 2, 3, 4])
    assert "succeeded=2, failed=1" in told
    check(dsn)
