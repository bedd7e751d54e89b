"""`using(…)`: what one job asks for beyond its arguments, as the `jobs` view shows it."""

import asyncio
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from api.observer import Observer
from holdfast import App, Context, Done, Handle, Job, Machine, Retry, Step, exponential
from holdfast.errors import InvalidInput, JobEnded, JobNotFound

LATER = datetime(2999, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def mail(app: App) -> Job[[int], str]:
    @app.job(queue="mail", priority=4, tags=["news"], retry=Retry(max_attempts=7), timeout="9m", keep="3h")
    async def mail(ctx: Context, user: int) -> str:
        return f"mailed {user}"

    return mail


async def test_without_options_the_kinds_own_choices_stand(mail: Job[[int], str], observer: Observer) -> None:
    job = observer.job((await mail.enqueue(1)).id)
    assert (job["queue"], job["priority"], job["tags"], job["max_attempts"]) == ("mail", 4, ["news"], 7)
    kept = "select row(timeout, keep, backoff, on_lost)::text from holdfast.job"
    assert observer.value(kept) == "(00:09:00,03:00:00,,)"


@pytest.mark.requirement("S2.14")
@pytest.mark.parametrize("delay", ["1h 30m", timedelta(hours=1, minutes=30)])
async def test_a_delay_is_counted_from_now(
    delay: str | timedelta, mail: Job[[int], str], observer: Observer
) -> None:
    job = observer.job((await mail.using(delay=delay).enqueue(1)).id)
    assert job["state"] == "scheduled"
    assert job["run_at"] - job["created_at"] == timedelta(hours=1, minutes=30)


@pytest.mark.requirement("S2.14")
async def test_at_is_a_moment_in_any_zone(mail: Job[[int], str], observer: Observer) -> None:
    oslo = timezone(timedelta(hours=2))
    job = observer.job((await mail.using(at=LATER.astimezone(oslo)).enqueue(1)).id)
    assert (job["state"], job["run_at"]) == ("scheduled", LATER)
    past = await mail.using(at=datetime(2020, 1, 1, tzinfo=UTC)).enqueue(1)
    assert observer.job(past.id)["state"] == "ready"


async def test_priority_queue_and_tags_are_the_jobs_own(mail: Job[[int], str], observer: Observer) -> None:
    job = observer.job((await mail.using(priority=0, queue="sløw", tags=["a", 'b"{},\\c']).enqueue(1)).id)
    assert (job["priority"], job["queue"], job["tags"]) == (0, "sløw", ["a", 'b"{},\\c'])
    assert observer.job((await mail.using(tags=[]).enqueue(1)).id)["tags"] is None


@pytest.mark.requirement("S2.14")
async def test_a_deadline_is_a_moment_or_a_length(mail: Job[[int], str], observer: Observer) -> None:
    moment = observer.job((await mail.using(deadline=LATER).enqueue(1)).id)
    assert moment["deadline_at"] == LATER
    length = observer.job((await mail.using(deadline="2h", delay="1h").enqueue(1)).id)
    assert length["deadline_at"] - length["created_at"] == timedelta(hours=2)


@pytest.mark.requirement("S2.14")
async def test_a_job_that_is_not_done_by_its_deadline_expires(app: App, mail: Job[[int], str]) -> None:
    late = await mail.using(deadline="1ms", at=LATER).enqueue(1)
    async with app.worker():
        with pytest.raises(JobEnded, match="expired") as ended:
            await late.result(timeout="60s")
    assert ended.value.error["code"] == "deadline_expired"


async def test_a_deadline_that_has_passed_by_the_databases_clock_expires_the_job(
    app: App, mail: Job[[int], str]
) -> None:
    """This process's clock may be wrong, and decides nothing."""
    late = await mail.using(deadline=datetime(2020, 1, 1, tzinfo=UTC)).enqueue(1)
    async with app.worker():
        with pytest.raises(JobEnded, match="expired"):
            await late.result(timeout="60s")


@pytest.mark.requirement("S2.14")
async def test_retry_replaces_the_kinds(mail: Job[[int], str], observer: Observer) -> None:
    job = await mail.using(retry=Retry(max_attempts=3, backoff=exponential("1m", jitter=0))).enqueue(1)
    assert observer.job(job.id)["max_attempts"] == 3
    assert (
        observer.value("select backoff::text from holdfast.job")
        == '{"exponential": [60.0, 2.0, 86400.0, 0.0]}'
    )


async def test_a_timeout_ends_an_attempt(app: App) -> None:
    @app.job(retry=Retry(max_attempts=1))
    async def hang() -> None:
        await asyncio.Event().wait()

    async with app.worker():
        job = await hang.using(timeout="100ms").enqueue()
        with pytest.raises(JobEnded, match="TimeoutError") as ended:
            await job.result(timeout="60s")
    assert ended.value.error["code"] == "timeout"


async def test_keep_0s_forgets_a_job_when_it_ends(app: App, mail: Job[[int], str]) -> None:
    ended = asyncio.Event()

    @app.job(on_success=lambda _: ended.set())
    async def work() -> None: ...

    async with app.worker():
        job = await work.using(keep="0s").enqueue()
        await asyncio.wait_for(ended.wait(), 60)
        with pytest.raises(JobNotFound):
            await job.status()


async def test_options_hold_for_every_job_made_with_them(
    app: App, mail: Job[[int], str], observer: Observer
) -> None:
    urgent = mail.using(priority=1)
    handles: list[Handle[Any]] = [await urgent.enqueue(1), await asyncio.to_thread(urgent.enqueue_sync, 2)]
    handles += await app.enqueue_many([urgent.call(3), mail.call(4)])
    assert [observer.job(handle.id)["priority"] for handle in handles] == [1, 1, 1, 4]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"delay": 5}, 'delay is 5: write a length of time with its unit, such as "5m"'),
    ({"delay": 0.5}, "delay is 0.5"),
    ({"delay": timedelta(seconds=-1)}, "delay"),
    ({"delay": "5 parsecs"}, "'5 parsecs'"),
    ({"delay": "101 years"}, "delay"),
    ({"delay": "1m", "at": LATER}, "a delay or a time, not both"),
    ({"at": datetime(2999, 1, 1)}, "no time zone"),  # noqa: DTZ001  # its point
    ({"at": 1_700_000_000}, "at is 1700000000"),
    ({"at": "tomorrow"}, "at is 'tomorrow'"),
    ({"at": date(2999, 1, 1)}, "aware datetime"),
    ({"at": datetime(9999, 1, 1, tzinfo=UTC)}, "out of range"),
    ({"deadline": 60}, "deadline is 60"),
    ({"deadline": "0s"}, "deadline is 0s: it must be above 0"),
    ({"deadline": timedelta(seconds=-1)}, "deadline is -1s: it must be above 0"),
    ({"deadline": "101 years"}, "deadline"),
    ({"deadline": "1h", "delay": "2h"}, "deadline is 1h, delay 2h: .* expired before it may run"),
    ({"deadline": "1h", "delay": "60m"}, "deadline is 1h, delay 1h: .* give a later deadline"),
    ({"deadline": LATER, "at": LATER}, "deadline is 2999-01-01 .*, at 2999-01-01 .*: .* expired before"),
    (
        {"deadline": LATER.astimezone(timezone(timedelta(hours=2))), "at": LATER + timedelta(seconds=1)},
        "expired before it may run",
    ),
    ({"on_conflict": "raise"}, 'on_conflict is "raise": it needs unique=…'),
    ({"on_conflict": "replace"}, 'on_conflict is "replace": it needs unique=…'),
    ({"on_conflict": "replace", "unique": None}, "it needs unique"),
    ({"deadline": datetime(2999, 1, 1)}, "no time zone"),  # noqa: DTZ001  # its point
    ({"timeout": 30}, "timeout is 30"),
    ({"timeout": "0s"}, "timeout"),
    ({"keep": 0}, "keep is 0"),
    ({"priority": 10}, "0 .most urgent. to 9"),
    ({"priority": "1"}, "priority is '1'"),
    ({"queue": ""}, "queue ''"),
    ({"tags": "news"}, "tags is 'news'"),
    ({"tags": ["x" * 201]}, "tag"),
    ({"retry": 3}, "retry is 3"),
    ({"retry": Retry(on=ValueError)}, r"to @app\.job"),
    ({"retry": Retry(backoff=lambda attempt, error: "1s")}, r"to @app\.job"),
    ({"keep": timedelta(seconds=-1)}, "keep is"),
    ({"queue": 5}, "queue 5"),
    ({"tags": 5}, "tags is 5"),
    ({"unique": 5}, "unique is 5: give a key"),
    ({"unique": []}, r"unique is \[\]: give a key"),
    ({"unique": [1]}, r"unique is \[1\]: give a key"),
    ({"unique": ["usr"]}, "unique names 'usr', which is not a parameter of mail: it takes user"),
    ({"unique": ""}, "unique key ''"),
    ({"unique": "k" * 1_001}, "unique key .* 1 to 1000 characters"),
    ({"on_conflict": "ignore"}, 'on_conflict is \'ignore\': give "existing", "raise" or "replace"'),
    ({"conn": object()}, "cannot run on a builtins.object"),
    ({"conn": "postgresql://nowhere/none"}, "a DSN has no transaction"),
]


@pytest.mark.parametrize(("options", "problem"), BAD)
def test_every_option_is_checked_by_using_itself(options: dict[str, Any], problem: str) -> None:
    @App("postgresql://nowhere/none").job(name="mail")
    async def mail(user: int) -> None: ...

    with pytest.raises(InvalidInput, match=problem):
        mail.using(**options)


def test_every_option_of_a_machine_is_checked_by_using_itself() -> None:
    @App("postgresql://nowhere/none").machine
    class Import(Machine[None]):
        class Download(Step):
            url: str

            async def run(self) -> Done[None]:
                return Done(None)

    with pytest.raises(InvalidInput, match="delay is 5"):
        Import.using(delay=5)  # type: ignore[arg-type]  # its point


async def test_an_unknown_option_is_a_type_error(mail: Job[[int], str]) -> None:
    with pytest.raises(TypeError, match="dealy"):
        mail.using(dealy="5m")  # type: ignore[call-arg]  # as an untyped caller may


async def test_a_call_is_written_on_the_connection_of_the_verb_that_takes_it(
    mail: Job[[int], str], dsn: str
) -> None:
    with (
        psycopg.Connection.connect(dsn) as connection,
        pytest.raises(InvalidInput, match=r"app.enqueue_many\(…, conn=…\) or app.schedules.put"),
    ):
        mail.using(conn=connection).call(1)
