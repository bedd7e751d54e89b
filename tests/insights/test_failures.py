"""What goes wrong, in groups: real workers fail, an operator lists the groups, retries and purges them."""

import asyncio
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from holdfast import App, Fail, Job, Retry, Secret
from holdfast.domain.fingerprint import pattern_of
from holdfast.errors import FailureNotFound, InvalidFilter, InvalidInput, JobEnded
from holdfast.insights.failure_records import FailureGroup
from holdfast.storage.failures import fold_failures
from support.blocking_in_a_loop import both_colours
from support.waiting import until

broken = {"is": True}


@pytest.fixture
def charge(app: App) -> Job[..., str]:
    broken["is"] = True

    @app.job(queue="money", retry=Retry(max_attempts=1))
    async def charge(order: int, card: Secret[str] = "0000-0000") -> str:
        if broken["is"]:
            raise ValueError(f"the bank refused order {order} with card {card}")
        return f"receipt {order}"

    return charge


@pytest.fixture
def refund(app: App) -> Job[..., None]:
    @app.job(queue="money", retry=Retry(max_attempts=1))
    async def refund(order: int) -> None:
        if order % 2:
            raise Fail(f"order {order} was never paid")
        raise KeyError(order)

    return refund


async def ended(app: App, *handles: Any) -> None:
    async with app.worker(queues={"money": 5}):
        for handle in handles:
            with suppress(JobEnded):
                await handle.result("60s")


async def groups(app: App, **asked: Any) -> dict[str, FailureGroup]:
    """By their pattern."""
    await app.run(fold_failures(app.schema))
    return {group.pattern: group for group in (await app.failures.list(**asked)).groups}


def audited(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(
            "select action, by, target, reason, counts from holdfast.audit order by id"
        ).fetchall()


async def test_failures_with_other_numbers_are_one_group(
    app: App, charge: Job[..., str], refund: Job[..., None]
) -> None:
    handles = [await charge.enqueue(n, card=f"4111-{n}") for n in (1, 22, 333)]
    await ended(app, *handles, await refund.enqueue(1), await refund.enqueue(3), await refund.enqueue(4))
    found = await groups(app)
    assert {pattern: group.last_hour for pattern, group in found.items()} == {
        "the bank refused order <n> with card [secret]": 3,
        "order <n> was never paid": 2,
        "<n>": 1,
    }
    group = found["the bank refused order <n> with card [secret]"]
    assert (group.type, group.kinds, group.queues) == ("ValueError", ("charge",), ("money",))
    assert group.frame == "charge in test_failures.py"
    assert group.first_seen_at <= group.last_seen_at
    assert str(group) == "ValueError: the bank refused order <n> with card [secret]"


async def test_a_secret_is_in_no_group(app: App, charge: Job[..., str], dsn: str) -> None:
    await ended(app, await charge.enqueue(1, card="4111-secret"), await charge.enqueue(2, card="5222-other"))
    [group] = (await groups(app)).values()
    shown = await app.failures.show(group.fingerprint)
    assert "[secret]" in group.message
    assert "[secret]" in (shown.traceback or "")
    assert "4111" not in repr(shown) + repr(group)
    with psycopg.connect(dsn) as connection:
        for table in ("failure_group", "failure_count", "failure_tally", "dead", "ledger"):
            rows = connection.execute(f"select t::text from holdfast.{table} t".encode()).fetchall()
            assert not any("4111" in row or "5222" in row for (row,) in rows), table


@both_colours
async def test_a_group_is_shown_with_its_latest_jobs_and_a_traceback(app: App, charge: Job[..., str]) -> None:
    handles = [await charge.enqueue(n) for n in range(12)]
    await ended(app, *handles)
    [group] = (await groups(app)).values()
    shown = await app.failures.show(group.fingerprint)
    assert shown.group == group
    assert [job.id for job in shown.jobs] == [handle.id for handle in handles[:1:-1]]
    assert (str(shown.dead), shown.dead.has_more) == ("12", False)
    assert shown.traceback is not None
    assert shown.traceback.startswith("Traceback")
    assert [frame.function for frame in shown.frames if frame.is_own] == ["charge"]
    assert app.failures.show_sync(group.fingerprint).group == group
    assert app.failures.list_sync().groups == (group,)
    assert app.failures.count_sync(group.fingerprint) == shown.dead
    run = (await app.jobs.show(group.job)).runs[-1]
    assert run.error is not None
    assert run.error.fingerprint == group.fingerprint


async def test_a_filter_finds_the_dead_letters_of_a_group(
    app: App, charge: Job[..., str], refund: Job[..., None]
) -> None:
    mine = [await charge.enqueue(n, card="4111-1111") for n in range(3)]
    others = [await refund.enqueue(1), await refund.enqueue(2)]
    await ended(app, *mine, *others)
    found = await groups(app)
    first = found["the bank refused order <n> with card [secret]"].fingerprint
    second = found["order <n> was never paid"].fingerprint

    async def listed(text: str) -> list[int]:
        return [job.id for job in (await app.jobs.list(text)).jobs]

    newest = [handle.id for handle in reversed(mine)]
    assert await listed(f"failure:{first}") == newest
    assert await listed(f"failure:{first},{second}") == [others[0].id, *newest]
    assert await listed(f"failure:{first} id:{mine[0].id},{others[0].id}") == [mine[0].id]
    assert await listed(f"failure:{first} kind:refund") == []
    assert await listed(f"failure:{first} state:succeeded") == []
    page = await app.jobs.list(f"failure:{first}", limit=2)
    assert [job.id for job in page.jobs] == newest[:2]
    rest = await app.jobs.list(f"failure:{first}", limit=2, after=page.next)
    assert [job.id for job in rest.jobs] == newest[2:]
    with pytest.raises(InvalidFilter, match="a second time"):
        await app.jobs.list(f"failure:{first} failure:{second}")


@both_colours
async def test_retrying_a_group_runs_its_jobs_again(
    app: App, charge: Job[..., str], refund: Job[..., None], dsn: str
) -> None:
    handles = [await charge.enqueue(n) for n in range(5)]
    other = await refund.enqueue(1)
    await ended(app, *handles, other)
    [group] = (await groups(app, kind="charge")).values()
    assert (await app.failures.count(group.fingerprint)).count == 5
    assert await app.failures.retry(group.fingerprint, limit=2, by="ann", reason="bank is back") == {
        "retried": 2
    }
    assert app.failures.retry_sync(group.fingerprint) == {"retried": 3}
    assert await app.failures.retry(group.fingerprint) == {}
    broken["is"] = False
    async with app.worker(queues={"money": 5}):
        assert [await handle.result("60s") for handle in handles] == [f"receipt {n}" for n in range(5)]
    target = f"failure:{group.fingerprint}"
    assert audited(dsn) == [
        ("retry", "ann", target, "bank is back", {"retried": 2}),
        ("retry", "python", target, None, {"retried": 3}),
    ]
    assert [(each.action, each.parameters) for each in await app.operations.list()] == [
        ("retry", {}),
        ("retry", {"limit": 2}),
    ]
    assert (await app.jobs.show(other.id)).summary.state == "failed"


@both_colours
async def test_purging_a_group_deletes_its_dead_letters(
    app: App, charge: Job[..., str], refund: Job[..., None]
) -> None:
    handles = [await charge.enqueue(n) for n in range(3)]
    other = await refund.enqueue(1)
    await ended(app, *handles, other)
    [group] = (await groups(app, kind="charge")).values()
    assert await app.failures.purge(group.fingerprint, limit=1) == {"deleted": 1}
    assert app.failures.purge_sync(group.fingerprint) == {"deleted": 2}
    assert [job.id for job in (await app.jobs.list()).jobs] == [other.id]
    assert (await app.failures.show(group.fingerprint)).dead.count == 0


async def test_an_action_on_your_connection_is_part_of_your_transaction(
    app: App, charge: Job[..., str], dsn: str
) -> None:
    await ended(app, await charge.enqueue(1))
    [group] = (await groups(app)).values()
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        assert await app.failures.purge(group.fingerprint, conn=connection) == {"deleted": 1}
        await connection.rollback()
    assert (await app.failures.count(group.fingerprint)).count == 1
    assert audited(dsn) == []


async def test_a_dead_letter_that_another_operator_holds_is_left_and_told(
    app: App, charge: Job[..., str], dsn: str
) -> None:
    handles = [await charge.enqueue(n) for n in range(3)]
    await ended(app, *handles)
    [group] = (await groups(app)).values()
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        assert await app.jobs.retry(handles[1].id, conn=connection) == {handles[1].id: "retried"}
        assert await app.failures.purge(group.fingerprint) == {"deleted": 2, "busy": 1}
    assert [job.id for job in (await app.jobs.list()).jobs] == [handles[1].id]


async def test_jobs_that_fail_again_meanwhile_are_not_retried_twice(
    app: App, charge: Job[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.insights.operation_steps.BATCH", 2)
    handles = [await charge.enqueue(n) for n in range(6)]
    await ended(app, *handles)
    [group] = (await groups(app)).values()
    async with app.worker(queues={"money": 5}):
        assert await app.failures.retry(group.fingerprint) == {"retried": 6}

        async def are_dead_again() -> bool:
            shown = await asyncio.gather(*(app.jobs.show(handle.id) for handle in handles))
            return all(len(each.runs) == 2 for each in shown)

        await until(are_dead_again)


async def test_the_leader_goes_on_with_a_retry_whose_process_has_gone(
    app: App, charge: Job[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.insights.operation_steps.BATCH", 2)
    handles = [await charge.enqueue(n) for n in range(6)]
    await ended(app, *handles)
    [group] = (await groups(app)).values()

    def gone(*_: Any, **__: Any) -> None:
        raise ConnectionError("this process is gone")

    with monkeypatch.context() as dying:
        dying.setattr("holdfast.insights.operation_steps.advance", gone)
        with pytest.raises(ConnectionError):
            await app.failures.retry(group.fingerprint, by="ann")
    broken["is"] = False
    async with app.worker(queues={"money": 5}):

        async def have_succeeded() -> bool:
            return {(await handle.status()).state for handle in handles} == {"succeeded"}

        await until(have_succeeded)


async def test_the_leader_counts_failures_by_itself(app: App, charge: Job[..., str]) -> None:
    async with app.worker(queues={"money": 5}):
        handle = await charge.enqueue(1)
        with suppress(JobEnded):
            await handle.result("60s")

        async def is_listed() -> bool:
            return len((await app.failures.list()).groups) == 1

        await until(is_listed)


async def test_a_page_continues_where_the_one_before_has_ended(app: App) -> None:
    @app.job(queue="money", retry=Retry(max_attempts=1))
    async def fail(word: str) -> None:
        raise ValueError(word)

    words = ["apple", "berry", "cherry", "date"]
    for times, word in enumerate(words, 1):
        await ended(app, *[await fail.enqueue(word) for _ in range(times)])
        await app.run(fold_failures(app.schema))
    for order, expected in (("newest", words[::-1]), ("frequent", words[::-1])):
        seen, after = [], None
        while True:
            page = await app.failures.list(order=order, after=after, limit=3)  # type: ignore[arg-type]
            seen += [group.pattern for group in page.groups]
            if page.next is None:
                break
            after = page.next
        assert seen == expected
    newest = await app.failures.list(limit=1)
    with pytest.raises(InvalidInput, match="another order"):
        await app.failures.list(order="frequent", after=newest.next)
    found, after = [], None
    while True:  # with a filter a page may be short, and goes on
        page = await app.failures.list(kind="fail", after=after, limit=3)
        found += [group.pattern for group in page.groups]
        after = page.next
        if after is None:
            break
    assert found == words[::-1]
    assert (await app.failures.list(kind="unknown")).groups == ()


@pytest.mark.parametrize(
    "asked",
    [
        {"since": "soon"},
        {"limit": 0},
        {"after": "nonsense"},
        {"order": "loudest"},
        {"kind": ""},
        {"queue": "\0"},
    ],
)
async def test_a_wrong_question_is_refused(app: App, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await app.failures.list(**asked)


async def test_an_unknown_group_is_an_error(app: App) -> None:
    for verb in (app.failures.show, app.failures.retry, app.failures.purge):
        with pytest.raises(FailureNotFound, match="0123456789abcdef"):
            await verb("0123456789abcdef")
        with pytest.raises(InvalidInput):
            await verb("")
    with pytest.raises(InvalidInput, match="limit"):
        await app.failures.retry("0123456789abcdef", limit=0)
    assert (await app.failures.count("0123456789abcdef")).count == 0


def test_a_pattern_of_a_pattern_is_the_same() -> None:
    """What a list shows is made from a message that may have been cut."""
    assert pattern_of(pattern_of("order 12 of 'x'")) == "order <n> of <text>"
