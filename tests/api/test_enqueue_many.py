"""`enqueue_many` over a generator: all jobs or none, once each, in order."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from api.observer import Observer
from holdfast import App
from holdfast.errors import DuplicateJob, InvalidInput
from holdfast.job import Call, Job
from holdfast.producer import bulk_enqueuer
from support.waiting import until

MANY = 3_500


def mail_of(app: App) -> Job[[int], None]:
    @app.job
    async def mail(user: int) -> None: ...

    return mail


def users(observer: Observer) -> list[int]:
    found: list[int] = observer.value("select array_agg((args->>'user')::int order by id) from holdfast.job")
    return found


class Interrupted(Exception):
    pass


async def test_a_generator_that_fails_has_written_nothing(app: App, observer: Observer) -> None:
    mail = mail_of(app)

    def calls() -> Iterator[Call[None]]:
        for number in range(MANY):
            yield mail.call(number)
        raise Interrupted

    with pytest.raises(Interrupted):
        await app.enqueue_many(calls())
    assert observer.count() == 0
    assert len(await app.enqueue_many(mail.call(number) for number in range(MANY))) == MANY


@pytest.mark.parametrize("at", [0, 1, 1_500, 2_999])
async def test_a_strange_call_among_many_is_refused_with_all_others(
    app: App, observer: Observer, at: int
) -> None:
    mail = mail_of(app)
    strange: Any = 5
    with pytest.raises(InvalidInput, match=r"give \[job\.call\(…\), …\]"):
        await app.enqueue_many(strange if number == at else mail.call(number) for number in range(3_000))
    assert observer.count() == 0


async def test_calls_that_come_slowly_are_written_once_and_in_order(
    app: App, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transaction is kept open for them: what was written by then is written again, from the beginning."""
    mail = mail_of(app)
    is_slow = False

    def calls() -> Iterator[Call[None]]:
        nonlocal is_slow
        for number in range(MANY):
            if number == MANY - 1_200:
                is_slow = True
                monkeypatch.setattr(bulk_enqueuer, "_SLOW", -1.0)
            yield mail.call(number)

    handles = await app.enqueue_many(calls())
    assert is_slow
    assert users(observer) == list(range(MANY))
    assert [handle.id for handle in handles] == [job["id"] for job in observer.jobs()]
    assert observer.value("select count(*) from holdfast.ready") == MANY


async def test_a_key_among_many_is_honoured(app: App, observer: Observer) -> None:
    mail = mail_of(app)
    held = await mail.using(unique="k").enqueue(7)
    keyed = mail.using(unique="k")
    handles = await app.enqueue_many(
        keyed.call(number) if number == 2_200 else mail.call(number) for number in range(MANY)
    )
    assert handles[2_200].id == held.id
    assert [handle.is_new for handle in handles].count(False) == 1
    assert observer.count() == MANY


async def test_a_taken_key_among_many_refuses_all_if_asked_to(app: App, observer: Observer) -> None:
    mail = mail_of(app)
    await mail.using(unique="k").enqueue(7)
    keyed = mail.using(unique="k", on_conflict="raise")
    with pytest.raises(DuplicateJob):
        await app.enqueue_many(
            keyed.call(number) if number == 2_200 else mail.call(number) for number in range(MANY)
        )
    assert observer.count() == 1


async def test_two_ways_to_meet_a_taken_key_are_refused_before_anything_is_written(
    app: App, observer: Observer
) -> None:
    mail = mail_of(app)
    ways = [mail.using(unique="a"), mail.using(unique="b", on_conflict="raise")]
    with pytest.raises(InvalidInput, match="have the same on_conflict"):
        await app.enqueue_many(
            ways[number % 2].call(number) if number > 2_000 else mail.call(number) for number in range(MANY)
        )
    assert observer.count() == 0


async def test_a_caller_that_is_cancelled_has_written_nothing(app: App, observer: Observer) -> None:
    """The connection that was used serves the next call."""
    mail = mail_of(app)
    await mail.enqueue(0)
    observer.connection.execute("begin")
    observer.connection.execute("lock table holdfast.ready in access exclusive mode")
    writing = asyncio.create_task(app.enqueue_many(mail.call(number) for number in range(MANY)))

    async def is_waiting() -> bool:
        return bool(observer.value("select count(*) from pg_locks where not granted"))

    await until(is_waiting)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    observer.connection.execute("rollback")
    await mail.enqueue(1)
    assert users(observer) == [0, 1]
