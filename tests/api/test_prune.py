"""`app.prune`: deletes at once what retention says may go, and nothing else."""

from contextlib import suppress
from typing import Any

import psycopg
import pytest

from holdfast import App, Retry
from holdfast.errors import InvalidInput, JobEnded
from holdfast.insights import pruning
from support.blocking_in_a_loop import both_colours
from support.waiting import until


def stored(dsn: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


def over(dsn: str, jobs: list[int], age: str) -> None:
    """These jobs ended that long ago, and were kept for as long as they had to."""
    stored(
        dsn,
        "update holdfast.ledger set keep_until = now() - interval '1s',"
        f" finished_at = now() - interval '{age}' where job = any(array{jobs}) returning 1",
    )


@pytest.fixture
async def ended(app: App, dsn: str) -> dict[str, list[int]]:
    """Three that succeeded and two that failed, of which one each is to be kept."""

    @app.job(retry=Retry(max_attempts=1))
    async def work(number: int) -> None:
        if number < 0:
            raise ValueError("too small")

    handles = [await work.enqueue(number) for number in (1, 2, 3, -1, -2)]
    async with app.worker():
        for handle in handles:
            with suppress(JobEnded):
                await handle.result("60s")
    found = [handle.id for handle in handles]
    over(dsn, [found[0], found[3]], "10 days")
    over(dsn, [found[1]], "1 hour")
    return {"succeeded": found[:3], "failed": found[3:]}


def left(dsn: str) -> list[int]:
    return [row[0] for row in stored(dsn, "select id from holdfast.job order by id")]


@both_colours
async def test_what_is_past_its_retention_goes_and_the_rest_stays(
    app: App, dsn: str, ended: dict[str, list[int]]
) -> None:
    found = await app.prunable()
    assert (found.counts, found.is_capped, found.total) == ({"succeeded": 2, "failed": 1}, False, 3)
    assert app.prunable_sync() == found
    told: list[int] = []
    assert await app.prune(by="ann", reason="disk", on_progress=told.append) == 3
    assert told == [3]
    assert left(dsn) == [ended["succeeded"][2], ended["failed"][1]]
    assert stored(dsn, "select count(*) from holdfast.dead") == [(1,)]
    assert (await app.prunable()).total == 0
    assert app.prune_sync() == 0
    assert stored(dsn, "select action, by, target, reason from holdfast.audit order by id limit 1") == [
        ("prune", "ann", "ended jobs past their retention", "disk")
    ]


@both_colours
async def test_it_is_narrowed_to_states_and_to_an_age(
    app: App, dsn: str, ended: dict[str, list[int]]
) -> None:
    assert (await app.prunable(states=["failed"])).counts == {"failed": 1}
    assert (await app.prunable(older_than="1d")).counts == {"succeeded": 1, "failed": 1}
    assert await app.prune(states=["succeeded"], older_than="1d") == 1
    assert ended["succeeded"][0] not in left(dsn)
    assert app.prune_sync(states=["failed", "cancelled"]) == 1
    assert left(dsn) == [*ended["succeeded"][1:], ended["failed"][1]]


@both_colours
async def test_it_goes_in_small_transactions_and_what_is_gone_stays_gone_when_it_is_stopped(
    app: App, dsn: str
) -> None:
    @app.job
    async def work(number: int) -> None: ...

    await app.enqueue_many([work.call(number) for number in range(1_200)])
    async with app.worker():
        await until(lambda: stored(dsn, "select count(*) from holdfast.ledger") == [(1_200,)])
    stored(dsn, "update holdfast.ledger set keep_until = now() - interval '1s' returning 1")

    def stop(deleted: int) -> None:
        assert deleted == 500
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        app.prune_sync(on_progress=stop)
    assert len(left(dsn)) == 700
    told: list[int] = []
    assert app.prune_sync(on_progress=told.append) == 700
    assert told == [500, 700]


async def test_a_count_is_capped(app: App, dsn: str) -> None:
    stored(
        dsn,
        "insert into holdfast.ledger"
        " (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind)"
        " select n, n, now(), now(), 'succeeded', 1, true, 'default', 'work' from generate_series(1, 10001) n"
        " returning 1",
    )
    found = await app.prunable()
    assert (found.total, found.is_capped) == (10_000, True)


@both_colours
async def test_few_among_many_are_found_page_by_page(
    app: App, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few match, no statement reads more than a page: one in eleven here, and none of the last."""
    monkeypatch.setattr(pruning, "_PAGE", 10)
    monkeypatch.setattr(pruning, "_BATCH", 3)
    stored(
        dsn,
        "insert into holdfast.ledger"
        " (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind)"
        " select n, n, now(), now() - make_interval(secs => n),"
        " case when n % 11 = 0 and n > 22 then 'expired' else 'succeeded' end::holdfast.outcome,"
        " 1, true, 'default', 'work' from generate_series(1, 200) n"
        " returning 1",
    )
    assert (await app.prunable(states=["expired"])).counts == {"expired": 16}
    assert (await app.prunable()).counts == {"succeeded": 184, "expired": 16}
    told: list[int] = []
    assert await app.prune(states=["expired"], on_progress=told.append) == 16
    assert told[-1] == 16
    assert len(told) >= 16, "a page of ten holds one at most"
    assert await app.prune() == 184
    assert stored(dsn, "select count(*) from holdfast.ledger") == [(0,)]


async def test_it_passes_over_what_another_transaction_holds(
    app: App, dsn: str, ended: dict[str, list[int]]
) -> None:
    """Such as the leader's own pruning."""
    async with await psycopg.AsyncConnection.connect(dsn) as other:
        await other.execute(f"select from holdfast.ledger where job = {ended['succeeded'][0]} for update")
        assert await app.prune() == 2
    assert await app.prune() == 1


async def test_bad_input_is_refused(app: App) -> None:
    for states in ("done", [], ["succeeded", "ready"], 3):
        with pytest.raises(InvalidInput, match="give some of succeeded, failed"):
            await app.prune(states=states)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="older_than"):
        await app.prunable(older_than="-1d")
    with pytest.raises(InvalidInput, match="by is empty"):
        await app.prune(by="")
