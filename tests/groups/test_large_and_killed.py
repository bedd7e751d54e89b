"""A group of 100,000 members; and groups in a fleet whose workers, leaders among them, are killed."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest

from flows.fast_worker import working
from holdfast import App, Context, GroupCounts
from holdfast.job import Call
from storage.interleaving.table_invariants import flaws
from support.waiting import until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]

TESTS = Path(__file__).parents[1]
MANY = 100_000
GROUPS = 15
MEMBERS = 40
KILLS = 8


async def test_a_hundred_thousand_members_are_written_counted_followed_and_read(app: App) -> None:
    @app.job
    async def work(number: int) -> int:
        return number

    @app.job
    async def total(ctx: Context) -> list[int]:
        assert ctx.group is not None
        members = app.group_handle(ctx.group.id).results()
        return [ctx.group.counts.succeeded, sum([member.result async for member in members])]

    def calls() -> Iterator[Call[int]]:
        return (work.call(number) for number in range(MANY))

    group = await app.group(calls(), then=total.call())
    seen: set[int] = set()

    async def is_final() -> bool:
        status = await group.status()
        seen.add(status.counts.ended)
        return status.is_final

    async with working(app, slots=100):
        await until(is_final, "all of it has ended", within=250)
        assert await group.result("1s") == [MANY, MANY * (MANY - 1) // 2]
    assert (await group.status()).counts == GroupCounts(MANY, MANY)
    assert len(seen) > 5, "its progress was seen"
    assert (await app.fsck()).is_sound


@contextmanager
def fleet(dsn: str, size: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    running = [started(dsn) for _ in range(size)]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait(10)


def started(dsn: str) -> "subprocess.Popen[bytes]":
    options = json.dumps({"lease": 2, "leader_lease": 1, "poll": 1})
    return subprocess.Popen(
        [sys.executable, "-m", "acceptance.run_worker", "groups.fleet_app", options],
        cwd=TESTS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOLDFAST_DSN": dsn},
    )


async def test_what_follows_is_enqueued_once_however_often_workers_and_leaders_are_killed(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    from groups.fleet_app import app, fragile, member, report

    luck = random.Random(7)
    with psycopg.connect(dsn, autocommit=True) as connection, fleet(dsn, 3) as running:

        def ended() -> int:
            [(count,)] = connection.execute(
                "select count(*) from holdfast.job_group where ended_at is not null"
            )
            return int(count)

        for number in range(GROUPS):
            calls = [member.call(each) for each in range(MEMBERS - 1)]
            await app.group([*calls, fragile.call(number)], then=report.call())
        for kill in range(KILLS):
            await until(partial(lambda least: ended() > least, kill), "some groups have ended", within=60)
            place = luck.randrange(len(running))
            running[place].kill()
            running[place].wait(10)
            running[place] = started(dsn)
        await until(lambda: ended() == GROUPS, "all groups have ended", within=120)
        followers = connection.execute(
            "select parent, count(*) from holdfast.job where kind = 'report' group by 1"
        ).fetchall()
        counts = connection.execute(
            "select distinct members, succeeded, failed, cancelled + expired + gone from holdfast.job_group"
        ).fetchall()
        results = connection.execute(
            "select distinct l.result from holdfast.ledger l join holdfast.job_group g on g.then_job = l.job"
            " where l.is_final"
        ).fetchall()
        damaged = flaws(connection)
    assert [count for _, count in followers] == [1] * GROUPS
    assert counts == [(MEMBERS, MEMBERS - 1, 1, 0)]
    assert results == [({"ended": MEMBERS, "members": MEMBERS},)]
    assert damaged == {}
    await app.close()
