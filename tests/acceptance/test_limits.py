"""Limits seen from outside: by what the handlers of running workers saw of each other."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from acceptance.books import Books
from acceptance.in_process_workers import working
from acceptance.run_worker import options
from acceptance.test_killed_workers import frozen_with_leases
from acceptance.workers import Workers
from holdfast import App, Context, Limit, Retry
from support.waiting import until


class Crowd:
    """Who is inside, by key, and the most that ever were."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done: list[int] = []

    @contextmanager
    def of(self, key: str, what: int) -> Iterator[None]:
        self.inside[key] += 1
        self.most[key] = max(self.most[key], self.inside[key])
        try:
            yield
        finally:
            self.inside[key] -= 1
            self.done.append(what)


@asynccontextmanager
async def two_workers(app: App) -> AsyncIterator[None]:
    async with working(app), working(app):
        yield


def permits(books: Books) -> int:
    return int(books.value("select coalesce(sum(held), 0) from holdfast.lane"))


@pytest.mark.parametrize("number", [1, 3])
async def test_no_more_of_a_key_run_at_once_than_its_limit_allows(
    dsn: str, books: Books, number: int
) -> None:
    crowd = Crowd()
    async with App(dsn) as app:

        @app.job(limit=Limit(key="account", per_key=number))
        async def charge(account: str, nth: int) -> None:
            with crowd.of(account, nth):
                await asyncio.sleep(0.002)

        async with two_workers(app):
            await app.enqueue_many([charge.call(f"a{n % 4}", n) for n in range(60)])
            for n in range(60, 80):
                await charge.enqueue(f"a{n % 4}", n)
            await until(lambda: len(crowd.done) == 80, "all have run", within=60)
            assert set(crowd.most) == {"a0", "a1", "a2", "a3"}
            assert max(crowd.most.values()) == number
            await until(lambda: permits(books) == 0, "all permits came back")
    assert sorted(crowd.done) == list(range(80))


async def test_kinds_share_a_limit_over_all_workers(dsn: str, books: Books) -> None:
    crowd = Crowd()
    async with App(dsn) as app:
        api = app.limit("api", total=2)

        @app.job(limit=api)
        async def one(n: int) -> None:
            with crowd.of("api", n):
                await asyncio.sleep(0.005)

        @app.job(limit=api, queue="others")
        async def two(n: int) -> None:
            with crowd.of("api", n):
                await asyncio.sleep(0.005)

        queues = {"default": 10, "others": 10}
        async with app.worker(options=replace(options(), queues=queues)):
            await app.enqueue_many([kind.call(n) for n in range(30) for kind in (one, two)])
            await until(lambda: len(crowd.done) == 60, "all have run", within=60)
            await until(lambda: permits(books) == 0, "all permits came back")
    assert crowd.most["api"] == 2


async def test_a_key_goes_on_while_one_of_its_jobs_waits_for_its_next_attempt(dsn: str) -> None:
    seen: list[str] = []
    async with App(dsn) as app:

        @app.job(limit=Limit(key="account", per_key=1), retry=Retry(max_attempts=2, backoff="1h"))
        async def charge(account: str, name: str) -> None:
            seen.append(name)
            if name == "fails":
                raise RuntimeError("no")

        async with working(app):
            first = await charge.enqueue("acme", "fails")
            await charge.enqueue("acme", "next")
            await until(lambda: seen == ["fails", "next"], "the key goes on")
            assert (await first.status()).state == "scheduled"


async def test_a_job_that_keeps_its_permit_goes_before_the_next_of_its_key(dsn: str) -> None:
    seen: list[tuple[str, int]] = []
    async with App(dsn) as app:

        @app.job(
            limit=Limit(key="account", per_key=1, hold="job"), retry=Retry(max_attempts=3, backoff="50ms")
        )
        async def charge(ctx: Context, account: str, name: str) -> None:
            seen.append((name, ctx.attempt))
            if ctx.attempt < 3:
                raise RuntimeError("no")

        async with working(app):
            await charge.enqueue("acme", "first")
            last = await charge.enqueue("acme", "second")
            await last.result(timeout="30s")
    assert seen == [(name, attempt) for name in ("first", "second") for attempt in (1, 2, 3)]


async def test_work_that_a_handler_commits_itself_gives_its_permit_back(dsn: str, books: Books) -> None:
    crowd = Crowd()
    async with App(dsn) as app:

        @app.job(limit=Limit(total=1))
        async def pay(ctx: Context, n: int) -> None:
            async with ctx.transaction() as conn:
                with crowd.of("pay", n):
                    await conn.execute("select pg_sleep(0.001)")

        async with two_workers(app):
            await app.enqueue_many([pay.call(n) for n in range(20)])
            await until(lambda: len(crowd.done) == 20, "all have run", within=60)
            await until(lambda: permits(books) == 0, "all permits came back")
    assert crowd.most["pay"] == 1


async def test_jobs_enqueued_with_a_callers_transaction_wait_at_the_gate(dsn: str) -> None:
    crowd = Crowd()
    async with App(dsn) as app:

        @app.job(limit=Limit(total=1))
        async def pay(n: int) -> None:
            with crowd.of("pay", n):
                await asyncio.sleep(0.002)

        async with working(app), await psycopg.AsyncConnection.connect(dsn) as conn:
            for n in range(3):
                await pay.using(conn=conn).enqueue(n)
            handle = await pay.using(conn=conn).enqueue(3)
            await conn.commit()
            await handle.result(timeout="30s")
            await until(lambda: len(crowd.done) == 4, "all have run")
    assert crowd.most["pay"] == 1


async def test_jobs_of_a_queue_that_is_resumed_pass(dsn: str) -> None:
    done: list[int] = []
    async with App(dsn) as app:

        @app.job(limit=Limit(total=1))
        async def pay(n: int) -> None:
            done.append(n)

        async with working(app):
            await app.queues.pause("default")
            await pay.enqueue(1)
            gated = await pay.enqueue(2)
            assert (await gated.status()).state == "gated"
            await app.queues.resume("default")
            await until(lambda: len(done) == 2, "both have run")


@pytest.mark.machine
async def test_of_a_key_no_two_run_at_once_when_its_worker_is_killed_and_the_next_follows(
    shop: Any, books: Books, workers: Workers
) -> None:
    """Begin and end are written outside of the database. A run that was killed has no end: the next of its
    account begins when it was rescued, which is when its worker cannot run it any more.
    """
    accounts, each = 5, 60
    one, other = await workers.start_several(2, lease=2)
    await shop.app.enqueue_many([shop.charge.call(f"a{n % accounts}", n) for n in range(accounts * each)])
    await until(lambda: len(books.lines("begins a0")) >= 10, "they are in the middle of it", within=60)
    await frozen_with_leases(one, books)
    killed_at = time.monotonic()
    one.kill()
    await books.all_finished(accounts * each)
    await until(lambda: permits(books) == 0, "all permits came back")
    await other.stop()
    for n in range(accounts):
        begun = [(line.at, 1, line.run) for line in books.lines(f"begins a{n}")]
        ended = {line.run: line.at for line in books.lines(f"ends a{n}")}
        assert len(begun) >= each
        ends = [(ended.get(run, killed_at), 0, run) for _, _, run in begun]
        inside = 0
        for _, is_begin, _ in sorted([*begun, *ends]):
            inside += 1 if is_begin else -1
            assert inside <= 1
