"""`app.jobs.list`: every state is found by its filter, pages follow each other, and no cost is unbounded."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Context, Flow, Job, Retry, Secret
from holdfast.domain.job_filter import ArgumentMatch, JobFilter
from holdfast.domain.redaction import MASK
from holdfast.errors import InvalidFilter, InvalidInput
from holdfast.insights import job_list
from holdfast.insights.job_records import JobPage
from holdfast.storage import jobs_listed
from support.blocking_in_a_loop import both_colours
from support.waiting import until


@pytest.fixture
def work(app: App) -> Job[..., int]:
    @app.job(queue="mail", retry=Retry(max_attempts=2, backoff="1h"), tags=["basic"])
    async def work(number: int = 0, locale: str = "en") -> int:
        if number < 0:
            raise ValueError(f"the number {number} is too small")
        return number

    return work


def ids(page: JobPage) -> list[int]:
    return [job.id for job in page.jobs]


async def ended(app: App, *jobs: int) -> None:
    async def all_have_ended() -> bool:
        return all([(await app.handle(job).status()).is_final for job in jobs])

    await until(all_have_ended)


@pytest.mark.requirement("S2.30")
async def test_every_state_is_found_by_its_filter(app: App, work: Job[..., int], dsn: str) -> None:
    @app.job(queue="mail", retry=Retry(max_attempts=1))
    async def fail() -> None:
        raise KeyError("gone")

    @app.job(queue="mail")
    async def block(ctx: Context) -> None:
        await app.handle(ctx.job.id).result("60s")

    @app.flow(queue="mail")
    async def wait(flow: Flow) -> None:
        await flow.wait_event("never", type=str)

    jobs = {
        "succeeded": (await work.enqueue(1)).id,
        "retrying": (await work.enqueue(-1)).id,
        "failed": (await fail.enqueue()).id,
        "running": (await block.enqueue()).id,
        "waiting": (await wait.enqueue()).id,
        "ready": (await work.using(queue="other").enqueue(2)).id,
        "scheduled": (await work.using(delay="2h").enqueue(3)).id,
        "cancelled": (await work.using(delay="2h").enqueue(4)).id,
        "expired": (await work.using(queue="other", deadline="1ms").enqueue(5)).id,
    }
    await app.jobs.cancel([jobs["cancelled"]])

    async def every_state() -> bool:
        return {state: [job] for state, job in jobs.items()} == {
            state: sorted(set(ids(await app.jobs.list(f"state:{state}"))) - _of_others(jobs, state))
            for state in jobs
        }

    async with app.worker(queues={"mail": 10}):
        await until(every_state)
        everything = await app.jobs.list()
        assert ids(everything) == sorted(jobs.values(), reverse=True)
        assert everything.next is None
        assert everything.searched is None
        assert {job.state for job in everything.jobs} == {*jobs} - {"retrying"}
        some = await app.jobs.list("state:ready,failed,running,expired")
        assert set(ids(some)) == {jobs[state] for state in ("ready", "failed", "running", "expired")}
        await app.jobs.cancel([jobs["running"]])
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("delete from holdfast.scheduled where job = %s", [jobs["scheduled"]])
    assert ids(await app.jobs.list("state:lost")) == [jobs["scheduled"]]


def _of_others(jobs: dict[str, int], state: str) -> set[int]:
    """A retrying job is scheduled, too."""
    return {jobs["retrying"]} if state == "scheduled" else set()


async def test_fields_of_a_filter_narrow_a_list(app: App, work: Job[..., int]) -> None:
    one = (await work.using(priority=1, tags=["vip", "eu"]).enqueue(1, locale="nb")).id
    two = (await work.using(queue="other").enqueue(2)).id
    bad = (await work.enqueue(-1)).id
    found = {
        "kind:work": {one, two, bad},
        "kind:nothing": set[int](),
        "queue:other": {two},
        "priority:<3": {one},
        "priority:>=5": {two, bad},
        "tag:vip": {one},
        "tag:vip tag:eu": {one},
        "tag:vip tag:us": set(),
        f"id:{one},{two}": {one, two},
        "created:<1h": {one, two, bad},
        "created:>1h": set(),
        "created:>2020-01-01": {one, two, bad},
        "created:<2020-01-01": set(),
    }
    for text, expected in found.items():
        assert set(ids(await app.jobs.list(text))) == expected, text
    async with app.worker(queues={"mail": 1}) as worker:
        await ended(app, one)

        async def is_retrying() -> bool:
            return ids(await app.jobs.list("state:retrying")) == [bad]

        await until(is_retrying)
        found = {
            "args.number:1": {one},
            'args.number:"1"': set(),
            "args.locale:nb": {one},
            'error:"TOO SMALL"': {bad},
            'error:"too small" state:retrying': {bad},
            "error:nothing": set(),
            "attempt:1": {one, bad},
            "attempt:>1": set(),
            f"worker:{worker.id}": {one, bad},
            "worker:0": set(),
            "finished:<1h": {one},
            "finished:>1h": set(),
        }
        for text, expected in found.items():
            assert set(ids(await app.jobs.list(text))) == expected, text


async def test_jobs_of_a_flow_and_of_a_schedule_are_found_by_it(app: App, work: Job[..., int]) -> None:
    @app.flow(queue="mail")
    async def parent(flow: Flow) -> int:
        return await flow.call(work, 1)

    await app.schedules.put("often", work.call(7), every="1h")
    await app.schedules.run_now("often")
    flow = await parent.enqueue()
    async with app.worker(queues={"mail": 5}):
        await flow.result("60s")
        children = await app.jobs.list(f"flow:{flow.id}")
        assert [job.args for job in children.jobs] == [{"number": 1}]
        assert {job.parent for job in children.jobs} == {flow.id}
        scheduled = await app.jobs.list("schedule:often")
        assert [job.args for job in scheduled.jobs] == [{"number": 7}]


@both_colours
async def test_pages_follow_each_other_without_gap_or_repetition(app: App, work: Job[..., int]) -> None:
    many = [handle.id for handle in await app.enqueue_many(work.call(n) for n in range(25))]
    delayed = [
        handle.id for handle in await app.enqueue_many(work.using(delay="1h").call(n) for n in range(25))
    ]
    for text, expected in {
        "": many + delayed,
        "state:ready": many,
        "state:ready,scheduled": many + delayed,
    }.items():
        seen, after = list[int](), None
        while True:
            page = await app.jobs.list(text, after=after, limit=7)
            assert app.jobs.list_sync(text, after=after, limit=7).jobs == page.jobs
            seen += ids(page)
            after = page.next
            if after is None:
                break
            assert len(page.jobs) == 7
        assert seen == sorted(expected, reverse=True), text


async def test_a_page_that_finds_little_says_how_far_it_has_looked(
    app: App, work: Job[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_listed, "WINDOW", 20)
    monkeypatch.setattr(job_list, "_FIRST_WINDOW", 5)
    monkeypatch.setattr(job_list, "_PATIENCE", 60)
    first = (await work.using(tags=["old"]).enqueue(0)).id
    await app.enqueue_many(work.call(n) for n in range(30))
    page = await app.jobs.list("tag:old", limit=5)
    assert (page.jobs, page.searched) == ((), 20)
    page = await app.jobs.list("tag:old", limit=5, after=page.next)
    assert (ids(page), page.next, page.searched) == ([first], None, None)


async def test_a_page_that_finds_little_looks_no_longer_than_its_time_and_the_next_goes_on(
    app: App, work: Job[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_list, "_FIRST_WINDOW", 5)
    monkeypatch.setattr(job_list, "_PATIENCE", 0)
    old = [(await work.using(tags=["old"]).enqueue(n)).id for n in range(2)]
    await app.enqueue_many(work.call(n) for n in range(7))
    page = await app.jobs.list("tag:old", limit=5)
    assert (page.jobs, page.searched) == ((), 5)
    page = await app.jobs.list("tag:old", limit=5, after=page.next)
    assert ids(page) == old[::-1]


async def test_a_page_is_filled_from_several_looks(
    app: App, work: Job[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_list, "_FIRST_WINDOW", 5)
    monkeypatch.setattr(job_list, "_PATIENCE", 60)
    all_of_them = [(await work.using(tags=["odd"] if n % 2 else []).enqueue(n)).id for n in range(20)]
    odd = all_of_them[::-1][::2]
    page = await app.jobs.list("tag:odd", limit=4)
    assert ids(page) == odd[:4]
    assert ids(await app.jobs.list("tag:odd", limit=40, after=page.next)) == odd[4:]


async def test_errors_and_arguments_are_searched_as_they_are_written(app: App) -> None:
    """Signs that mean something in a pattern of Postgres mean themselves."""

    @app.job(retry=Retry(max_attempts=1))
    async def fail(message: str) -> None:
        raise ValueError(message)

    messages = ["50% off", "50 off", "under_score", "underXscore", "back\\slash", "ÄRGER im Büro"]
    handles = {message: (await fail.enqueue(message)).id for message in messages}
    async with app.worker():
        await until(lambda: _all_failed(app, len(messages)))
    for text, expected in {
        "50%": "50% off",
        "UNDER_SCORE": "under_score",
        "back\\slash": "back\\slash",
        "ÄRGER IM": "ÄRGER im Büro",
        "valueerror: 50 off": "50 off",
    }.items():
        for asked in (JobFilter(errors=(text,)), JobFilter(states=("failed",), errors=(text, "error"))):
            assert ids(await app.jobs.list(asked)) == [handles[expected]], text
    assert ids(await app.jobs.list(JobFilter(arguments=(ArgumentMatch(("message",), '"50% off"'),)))) == [
        handles["50% off"]
    ]


async def _all_failed(app: App, number: int) -> bool:
    return len((await app.jobs.list("state:failed")).jobs) == number


async def test_secrets_are_masked_and_arguments_of_unknown_kinds_are_not_shown(app: App, dsn: str) -> None:
    @app.job
    async def charge(card: Secret[str], cents: int) -> None: ...

    await charge.enqueue("4111-1111", cents=5)
    assert [job.args for job in (await app.jobs.list()).jobs] == [{"card": MASK, "cents": 5}], "its own code"
    async with App(dsn) as stranger:
        assert [job.args for job in (await stranger.jobs.list()).jobs] == [MASK], "no worker has declared it"
        assert (await stranger.jobs.list("args.cents:5")).jobs == ()
        async with app.worker():
            await until(lambda: _kinds_are_known(stranger))
        [job] = (await stranger.jobs.list("args.cents:5")).jobs
        assert job.args == {"card": MASK, "cents": 5}
        with pytest.raises(InvalidInput, match=r"args\.card is secret in charge"):
            await stranger.jobs.list("args.card:4111-1111")
        assert (await stranger.jobs.list("kind:other args.card:4111-1111")).jobs == ()


async def _kinds_are_known(app: App) -> bool:
    return bool((await app.jobs.list()).jobs[0].args != MASK)


async def test_long_arguments_are_left_out_of_a_list(app: App) -> None:
    @app.job
    async def store(text: str) -> None: ...

    handle = await store.enqueue("x" * 10_000)
    [job] = (await app.jobs.list()).jobs
    assert (job.args, job.args_size) == (None, 10_011)
    async with app.worker():
        await handle.result("60s")
        await until(lambda: _is_shown(app, handle.id))


async def _is_shown(app: App, job: int) -> bool:
    return bool((await app.jobs.show(job)).args == {"text": "x" * 10_000})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"after": "nonsense"}, "give the `next` of a page"),
        ({"limit": 0}, "limit is 0"),
        ({"filter": 7}, "give a text such as"),
        ({"filter": "stat:ready"}, "did you mean"),
    ],
)
async def test_bad_input_is_refused(app: App, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        await app.jobs.list(**given)
    assert issubclass(InvalidFilter, InvalidInput)


async def test_a_list_tells_when_and_how_a_job_ran(app: App, work: Job[..., int]) -> None:
    handle = await work.enqueue(3)
    async with app.worker(queues={"mail": 1}) as worker:
        await handle.result("60s")
        [job] = (await app.jobs.list("state:succeeded")).jobs
        assert (job.kind, job.queue, job.attempt, job.max_attempts) == ("work", "mail", 1, 2)
        assert job.worker == worker.id
    assert job.started_at is not None
    assert job.ran_for is not None
    assert timedelta() <= job.ran_for
    assert job.error is None


@both_colours
async def test_an_empty_page_names_what_nothing_is_called(app: App) -> None:
    @app.job(queue="mail", tags=["vip"])
    async def pay() -> None: ...

    async with app.worker(queues={"mail": 1}):
        await (await pay.enqueue()).result("60s")

    async def hints(text: str) -> tuple[str, ...]:
        return (await app.jobs.list(text)).hints

    assert await hints("kind:paay") == ('no worker has declared a kind "paay"; did you mean "pay"?',)
    assert await hints("queue:mial tag:vpi worker:99") == (
        'no job, setting, schedule or worker knows the queue "mial"; did you mean "mail"?',
        'no kind and none of the latest jobs has the tag "vpi"; did you mean "vip"?',
        "there is no worker 99 (any more)",
    )
    await app.schedules.put("tidy", pay.call(), every="1h")
    assert await hints("schedule:tidi") == ('there is no schedule "tidi" (any more); did you mean "tidy"?',)
    assert await hints("schedule:tidy") == ()
    assert await hints("kind:zzzzz") == ('no worker has declared a kind "zzzzz"',)
    assert await hints("kind:pay") == ()
    assert await hints("kind:pay state:failed queue:mail tag:vip") == (), (
        "there are none, but the names are right"
    )
    assert (await app.operations.preview("cancel", "kind:paay")).hints == await hints("kind:paay")
    assert app.jobs.list_sync("kind:paay").hints == await hints("kind:paay")
