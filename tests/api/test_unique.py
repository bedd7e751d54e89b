"""`using(unique=…)`: one active job for each key, and what happens to the second."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from api.observer import Observer
from holdfast import App, Context, Job
from holdfast.errors import DuplicateJob, InvalidInput
from support.blocking_in_a_loop import both_colours


@pytest.fixture
def mail(app: App) -> Job[[int, str], str]:
    @app.job(queue="mail")
    async def mail(user: int, subject: str = "Hello", body: str | None = None) -> str:
        return subject

    return mail


@pytest.mark.requirement("S2.11")
async def test_an_active_job_with_the_same_key_stands_for_the_second(
    mail: Job[..., str], observer: Observer
) -> None:
    first = await mail.using(unique="welcome:1").enqueue(1, "first")
    second = await mail.using(unique="welcome:1").enqueue(1, "second")
    other = await mail.using(unique="welcome:2").enqueue(2)
    assert (first.is_new, second.is_new, other.is_new) == (True, False, True)
    assert second.id == first.id != other.id
    assert [job["unique_key"] for job in observer.jobs()] == ["welcome:1", "welcome:2"]
    assert observer.job(first.id)["args"] == {"user": 1, "subject": "first"}


@pytest.mark.requirement("S2.11")
@both_colours
async def test_raise_names_the_key_and_its_holder(mail: Job[..., str], observer: Observer) -> None:
    first = await mail.using(unique="welcome:1").enqueue(1)
    again = mail.using(unique="welcome:1", on_conflict="raise")
    with pytest.raises(DuplicateJob, match="welcome:1") as raised:
        await again.enqueue(1)
    assert (raised.value.key, raised.value.queue, raised.value.job) == ("welcome:1", "mail", first.id)
    with pytest.raises(DuplicateJob):
        again.enqueue_sync(1)
    assert observer.count() == 1


async def test_replace_gives_the_waiting_job_new_contents(mail: Job[..., str], observer: Observer) -> None:
    first = await mail.using(unique="welcome:1", delay="1h").enqueue(1, "first")
    second = await mail.using(unique="welcome:1", on_conflict="replace", priority=1).enqueue(1, "second")
    assert (second.id, second.is_new) == (first.id, False)
    [job] = observer.jobs()
    assert job["args"] == {"user": 1, "subject": "second"}
    assert (job["state"], job["priority"]) == ("ready", 1)


@pytest.mark.requirement("S2.12")
async def test_a_key_is_free_again_when_its_job_has_ended(app: App, mail: Job[..., str]) -> None:
    once = mail.using(unique="welcome:1")
    async with app.worker():
        first = await once.enqueue(1)
        await first.result(timeout="60s")
        second = await once.enqueue(1)
        await second.result(timeout="60s")
    assert second.is_new
    assert second.id != first.id


async def test_one_key_in_two_queues_is_two_keys(mail: Job[..., str]) -> None:
    first = await mail.using(unique="welcome:1").enqueue(1)
    second = await mail.using(unique="welcome:1", queue="slow").enqueue(1)
    assert second.is_new
    assert second.id != first.id


@pytest.mark.requirement("S2.10")
@pytest.mark.parametrize(
    ("unique", "is_same"),
    [
        (True, {"same": True, "subject": False, "user": False}),
        (["user"], {"same": True, "subject": True, "user": False}),
        (["subject", "user"], {"same": True, "subject": False, "user": False}),
        (("subject",), {"same": True, "subject": False, "user": True}),
    ],
)
async def test_without_a_key_the_chosen_arguments_make_one(
    unique: Sequence[str] | bool, is_same: dict[str, bool], mail: Job[..., str]
) -> None:
    job = mail.using(unique=unique)
    first = await job.enqueue(1, "Hello")
    others = {
        "same": await job.enqueue(subject="Hello", user=1),
        "subject": await job.enqueue(1, "Bye"),
        "user": await job.enqueue(2, "Hello"),
    }
    assert {name: other.id == first.id for name, other in others.items()} == is_same


@pytest.mark.requirement("S2.10")
async def test_the_order_of_the_names_does_not_matter(mail: Job[..., str]) -> None:
    first = await mail.using(unique=["user", "subject"]).enqueue(1, "Hello")
    second = await mail.using(unique=["subject", "user"]).enqueue(1, "Hello")
    assert second.id == first.id


@pytest.mark.requirement("S2.10")
async def test_another_kind_with_the_same_arguments_is_not_the_same(app: App, mail: Job[..., str]) -> None:
    @app.job(queue="mail")
    async def letter(user: int) -> None: ...

    first = await mail.using(unique=["user"]).enqueue(1)
    assert (await letter.using(unique=["user"]).enqueue(1)).id != first.id


@pytest.mark.requirement("S2.10")
@pytest.mark.parametrize("unique", [True, ["user", "body"]])
async def test_a_parameter_that_was_not_given_counts_as_its_default(
    unique: Sequence[str] | bool, mail: Job[..., str], observer: Observer
) -> None:
    job = mail.using(unique=unique)
    absent = await job.enqueue(1)
    assert (await job.enqueue(1, body=None)).id == absent.id
    assert (await job.enqueue(1, "Hello")).id == absent.id
    assert (await job.enqueue(1, body="text")).id != absent.id
    assert observer.job(absent.id)["args"] == {"user": 1}  # in the key only: the code that runs has its own


async def test_values_that_are_the_same_make_the_same_key(app: App) -> None:
    class Odd:
        """A value that JSON cannot hold."""

    @app.job
    async def tally(names: set[str], rate: float = 1, way: Any = Odd) -> None: ...

    job = tally.using(unique=True)
    names = [f"name {number}" for number in range(20)]
    first = await job.enqueue(set(names))
    assert (await job.enqueue(set(names), 1.0)).id == first.id
    assert (await job.enqueue(set(names), 1.5)).id != first.id
    keyed = [tally.kind.signature.keyed(json.dumps({"names": order})) for order in (names, names[::-1])]
    assert keyed[0] == keyed[1]


@pytest.mark.parametrize("names", [["user", "sbject"], ["sbject"]])
async def test_a_name_that_is_no_parameter_is_refused_by_name(
    names: list[str], mail: Job[..., str], observer: Observer
) -> None:
    with pytest.raises(InvalidInput, match=r"'sbject'.*not a parameter of mail.*body, subject, user"):
        await mail.using(unique=names).enqueue(1)
    assert observer.count() == 0


async def test_the_context_is_no_parameter_to_be_unique_by(app: App) -> None:
    @app.job
    async def clean(ctx: Context) -> None: ...

    with pytest.raises(InvalidInput, match=r"'ctx'.*takes nothing"):
        await clean.using(unique=["ctx"]).enqueue()
    assert (await clean.using(unique=True).enqueue()).id == (await clean.using(unique=True).enqueue()).id


@pytest.mark.parametrize("unique", [5, [], [1], {"user": 1}, b"user", "", "a\0b", "x" * 1001])
async def test_what_is_neither_key_nor_names_is_refused(
    unique: object, mail: Job[..., str], observer: Observer
) -> None:
    with pytest.raises(InvalidInput, match="unique"):
        await mail.using(unique=unique).enqueue(1)  # type: ignore[arg-type]  # as an untyped caller may
    assert observer.count() == 0


async def test_false_and_none_ask_for_nothing(mail: Job[..., str]) -> None:
    jobs = [await mail.using(unique=unique).enqueue(1) for unique in (False, None, False)]
    assert len({job.id for job in jobs}) == 3


async def test_a_conflict_has_three_ways_and_no_other(mail: Job[..., str]) -> None:
    with pytest.raises(InvalidInput, match='"existing", "raise" or "replace"'):
        mail.using(unique="k", on_conflict="ignore")  # type: ignore[arg-type]  # as an untyped caller may


async def test_a_batch_with_one_key_twice_makes_one_job(
    app: App, mail: Job[..., str], observer: Observer
) -> None:
    once = mail.using(unique=["user"])
    handles = await app.enqueue_many([once.call(1), once.call(2), once.call(1)])
    assert handles[0].id == handles[2].id != handles[1].id
    assert [handle.is_new for handle in handles] == [True, True, False]
    assert observer.count() == 2


async def test_a_batch_that_raises_leaves_nothing(app: App, mail: Job[..., str], observer: Observer) -> None:
    await mail.using(unique="k").enqueue(1)
    strict = mail.using(unique="k", on_conflict="raise")
    with pytest.raises(DuplicateJob):
        await app.enqueue_many([mail.call(2), strict.call(3), mail.call(4)])
    assert observer.count() == 1


async def test_a_batch_has_one_way_with_conflicts(app: App, mail: Job[..., str], observer: Observer) -> None:
    calls = [
        mail.using(unique="a", on_conflict="raise").call(1),
        mail.using(unique="b", on_conflict="replace").call(2),
    ]
    with pytest.raises(InvalidInput, match="raise, replace"):
        await app.enqueue_many(calls)
    assert observer.count() == 0
