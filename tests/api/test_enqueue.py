"""Enqueueing: one job or ten thousand, awaited or blocking; checked before anything is written."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from api.observer import Observer
from holdfast import App, Job
from holdfast.errors import InvalidArguments, InvalidInput


def mail_of(app: App) -> Job[..., None]:
    @app.job(queue="mail")
    def mail(user: int, subject: str = "Hello") -> None: ...

    return mail


@pytest.mark.requirement("S2.9")
async def test_a_job_is_committed_when_enqueue_returns_its_id(app: App, observer: Observer) -> None:
    mail = mail_of(app)
    handle = await mail.enqueue(42, "Welcome")
    [job] = observer.jobs()
    assert (handle.id, handle.is_new) == (job["id"], True)
    assert (job["kind"], job["queue"], job["state"]) == ("mail", "mail", "ready")
    assert job["args"] == {"user": 42, "subject": "Welcome"}
    assert (job["priority"], job["attempt"], job["max_attempts"]) == (5, 0, 20)


@pytest.mark.requirement("S2.9")
def test_blocking_says_the_same_words(blocking_app: App, observer: Observer) -> None:
    mail = mail_of(blocking_app)
    handle = mail.enqueue_sync(42, subject="Welcome")
    handles = blocking_app.enqueue_many_sync([mail.call(1), mail.call(2)])
    jobs = observer.jobs()
    assert [job["id"] for job in jobs] == [handle.id, *(handle.id for handle in handles)]
    assert [job["args"]["user"] for job in jobs] == [42, 1, 2]


async def test_arguments_are_stored_by_name_and_defaults_are_not(app: App, observer: Observer) -> None:
    await mail_of(app).enqueue(42)
    [job] = observer.jobs()
    assert job["args"] == {"user": 42}


async def test_a_batch_answers_in_its_order_and_takes_any_kinds(app: App, observer: Observer) -> None:
    mail = mail_of(app)

    @app.job
    async def invoice(number: int) -> None: ...

    calls = [mail.call(1), invoice.call(2), mail.using(priority=1, delay="1h").call(3), invoice.call(4)]
    handles = await app.enqueue_many(call for call in calls)
    jobs = observer.jobs()
    assert [job["id"] for job in jobs] == [handle.id for handle in handles]
    assert [job["kind"] for job in jobs] == ["mail", "invoice", "mail", "invoice"]
    assert [job["state"] for job in jobs] == ["ready", "ready", "scheduled", "ready"]


async def test_an_empty_batch_is_nothing(app: App, observer: Observer) -> None:
    assert await app.enqueue_many([]) == []
    assert await asyncio.to_thread(app.enqueue_many_sync, []) == []
    assert observer.count() == 0


async def test_ten_thousand_at_once_keep_their_order(app: App, observer: Observer) -> None:
    mail = mail_of(app)
    handles = await app.enqueue_many(mail.call(number) for number in range(10_000))
    ids = [handle.id for handle in handles]
    assert ids == sorted(set(ids))
    in_order = "select array_agg((args->>'user')::int order by id) from holdfast.job"
    assert observer.value(in_order) == list(range(10_000))


def test_ten_thousand_at_once_blocking(blocking_app: App, observer: Observer) -> None:
    mail = mail_of(blocking_app)
    blocking_app.enqueue_many_sync([mail.call(number) for number in range(10_000)])
    assert observer.value("select count(distinct args->>'user') from holdfast.job") == 10_000


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda mail: mail.call("42"), r"mail\(user=…\): "),
        (lambda mail: mail.call(), r"mail\(\): missing .*'user'"),
        (lambda mail: mail.call(1, "a", "b"), "too many positional"),
        (lambda mail: mail.call(1, language="nb"), "language"),
        (lambda mail: mail.call(1, user=2), "user"),
        (lambda mail: mail.call(1, None), r"mail\(subject=…\): "),
        (lambda mail: mail.call(1, "a\0b"), "NUL"),
        (lambda mail: mail.call(1, "x" * 2**20), "1,048,576"),
    ],
)
async def test_wrong_arguments_are_refused_before_anything_is_written(
    call: Callable[[Any], Any], problem: str, dsn: str, observer: Observer
) -> None:
    app = App(dsn)
    mail: Any = mail_of(app)
    with pytest.raises(InvalidArguments, match=problem) as refused:
        call(mail)
    assert isinstance(refused.value, (InvalidInput, TypeError))
    with pytest.raises(InvalidArguments):
        await app.enqueue_many(call(mail) if number == 3 else mail.call(number) for number in range(5))
    assert observer.count() == 0
    assert observer.sessions() == []  # nothing was even opened


async def test_wrong_arguments_are_refused_by_every_way_in(app: App, observer: Observer) -> None:
    mail: Any = mail_of(app)
    with pytest.raises(InvalidArguments):
        await mail.enqueue("42")
    with pytest.raises(InvalidArguments):
        await mail.using(priority=1).enqueue("42")
    with pytest.raises(InvalidArguments):
        mail.enqueue_sync("42")
    with pytest.raises(InvalidArguments):
        mail.using(priority=1).enqueue_sync("42")
    assert observer.count() == 0


async def test_a_batch_that_fails_in_the_middle_leaves_nothing(app: App, observer: Observer) -> None:
    observer.connection.execute(
        "alter table holdfast.job add constraint no_1500 check (args->>'user' <> '1500')"
    )
    mail = mail_of(app)
    with pytest.raises(Exception, match="no_1500"):
        await app.enqueue_many(mail.call(number) for number in range(3_000))
    with pytest.raises(Exception, match="no_1500"):
        await asyncio.to_thread(app.enqueue_many_sync, [mail.call(number) for number in range(3_000)])
    assert observer.value("select count(*) from holdfast.job") == 0


async def test_a_batch_takes_only_calls_of_this_apps_jobs(dsn: str, app: App, observer: Observer) -> None:
    mail = mail_of(app)
    other = mail_of(App(dsn))
    strangers: list[Any] = [mail, 5, None, other.call(1)]
    for stranger in strangers:
        with pytest.raises(InvalidInput, match=r"give \[job\.call\(…\), …\]"):
            await app.enqueue_many([mail.call(1), stranger])
        with pytest.raises(InvalidInput, match=r"give \[job\.call\(…\), …\]"):
            app.enqueue_many_sync([mail.call(1), stranger])
    assert observer.count() == 0


async def test_many_at_the_same_time_are_all_written(app: App, observer: Observer) -> None:
    mail = mail_of(app)
    handles = await asyncio.gather(*(mail.enqueue(number) for number in range(200)))
    assert len({handle.id for handle in handles}) == observer.count() == 200
