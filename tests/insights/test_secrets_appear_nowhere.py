"""A matrix of secrets, marked and secret by their names, at the top and nested, in every place that people
read: values that Python gets, what each command prints, the log, the audit, and all tables but those that
hold arguments as they are.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Context, Done, Flow, Job, Machine, Next, Retry, Secret, Step
from holdfast.cli import main
from holdfast.domain.job_filter import ArgumentMatch, JobFilter
from holdfast.domain.redaction import MASK
from holdfast.errors import InvalidArguments, InvalidInput, JobEnded
from holdfast.storage.failures import fold_failures
from support.waiting import until

MARKED, NESTED, NAMED, DEEP, INNER = (
    "s3cret-marked",
    "s3cret-nested",
    "s3cret-named",
    "s3cret-deep",
    "s3cret-inner",
)
EVERY = (MARKED, NESTED, NAMED, DEEP, INNER)


@dataclass
class Card:
    number: Secret[str]
    holder: str


@pytest.fixture
def pay(app: App) -> Job[..., Any]:
    @app.job(queue="money", retry=Retry(max_attempts=1))
    async def pay(
        ctx: Context, order: int, *, pin: Secret[str], card: Card, api_token: str, options: dict[str, Any]
    ) -> dict[str, Any]:
        ctx.progress(0.5, f"asking the bank with {pin}", session_token=INNER)
        if order < 0:
            raise ValueError(
                f"refused {pin} {card.number} {api_token} {options['login']['Password']} {options!r}"
            )
        return {"receipt": order, "login": {"password": INNER}, "quoted": f"{pin}"}

    return pay


def given() -> dict[str, Any]:
    return {
        "pin": MARKED,
        "card": Card(NESTED, "Ann"),
        "api_token": NAMED,
        "options": {"login": {"Password": DEEP, "user": "ann"}, "list": [{"client_secret": INNER}]},
    }


MASKED = {
    "pin": MASK,
    "card": {"number": MASK, "holder": "Ann"},
    "api_token": MASK,
    "options": {"login": {"Password": MASK, "user": "ann"}, "list": [{"client_secret": MASK}]},
}


def leaks(text: str) -> list[str]:
    return [secret for secret in EVERY if secret in text]


async def settled(*handles: Any) -> None:
    for handle in handles:
        with suppress(JobEnded):
            await handle.result("60s")


async def test_no_list_detail_explanation_or_group_shows_a_secret(
    app: App, pay: Job[..., Any], dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    good, bad = await pay.enqueue(1, **given()), await pay.enqueue(-1, **given())
    waiting = await pay.using(delay="1h", unique=f"pay {NAMED}").enqueue(2, **given())
    async with app.worker(queues={"money": 2}):
        await settled(good, bad)
        await app.run(fold_failures(app.schema))
    [group] = (await app.failures.list()).groups
    async with App(dsn) as stranger:  # knows nothing but what the database tells
        for asked in (app, stranger):
            page = await asked.jobs.list()
            assert [job.args for job in page.jobs] == [MASKED | {"order": order} for order in (2, -1, 1)]
            shown = [await asked.jobs.show(job.id) for job in page.jobs]
            assert shown[2].result == {"receipt": 1, "login": {"password": MASK}, "quoted": MASK}
            seen = [
                page,
                shown,
                [await asked.jobs.explain(job.id) for job in page.jobs],
                await asked.failures.list(),
                await asked.failures.show(group.fingerprint),
                await asked.kinds.list(),
                await asked.workers.list(),
                await asked.operations.list(),
                await asked.audit.list(),
            ]
            assert leaks(repr(seen)) == []
            assert MASK in repr(seen)
    assert leaks(caplog.text) == []
    key = (await app.jobs.show(waiting.id)).unique_key
    assert key is not None
    assert key.startswith("pay:")
    again = await pay.using(delay="1h", unique=f"pay {NAMED}").enqueue(3, **given())
    assert (again.id, again.is_new) == (waiting.id, False)
    named = await app.kinds.enqueue("pay", json.loads(pay.call(5, **given()).job.args), unique=f"pay {NAMED}")
    assert (named.job, named.is_new) == (waiting.id, False)


async def test_every_table_but_those_of_arguments_and_results_is_free_of_them(
    app: App, pay: Job[..., Any], dsn: str
) -> None:
    bad = await pay.using(unique=f"{MARKED}/{DEEP}").enqueue(-1, **given())
    async with app.worker(queues={"money": 2}):
        await settled(bad)
    await app.run(fold_failures(app.schema))
    await app.jobs.rerun(bad.id, by="ann")
    with psycopg.connect(dsn) as connection:
        tables = [
            name
            for (name,) in connection.execute(
                "select tablename from pg_tables where schemaname = 'holdfast'"
                "   and tablename not in ('job', 'saved') order by 1"
            ).fetchall()
        ]
        assert {"dead", "ledger", "failure_group", "unique_key", "audit", "kind"} <= set(tables)
        for table in tables:
            rows = connection.execute(f"select t::text from holdfast.{table} t".encode()).fetchall()
            assert leaks(repr(rows)) == [], table


async def test_no_command_prints_one(
    app: App, pay: Job[..., Any], dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = await pay.enqueue(1, **given()), await pay.enqueue(-1, **given())
    kept = await pay.using(delay="1h").enqueue(2, **given())
    await app.schedules.put("nightly", pay.call(1, **given()), every=timedelta(days=1))
    async with app.worker(queues={"money": 2}):
        await settled(good, bad)
        await app.run(fold_failures(app.schema))
    [group] = (await app.failures.list()).groups
    jobs = [str(handle.id) for handle in (good, bad, kept)]
    commands = [
        ["jobs", "list"],
        *[["jobs", verb, job] for verb in ("show", "explain") for job in jobs],
        ["jobs", "list", "state:failed"],
        ["jobs", "reprioritise", jobs[2], "--to", "1"],
        ["jobs", "rerun", jobs[2], "-p", "order:=3"],
        ["failures", "list"],
        ["failures", "show", group.fingerprint],
        ["kinds", "list"],
        ["kinds", "show", "pay"],
        ["workers", "list"],
        ["queues", "list"],
        ["schedules", "list"],
        ["schedules", "show", "nightly"],
        ["schedules", "next", "nightly"],
        ["schedules", "pause", "nightly"],
        ["schedules", "resume", "nightly"],
        ["schedules", "skip", "nightly"],
        ["schedules", "history", "nightly"],
        ["operations", "start", "reprioritise", "kind:pay", "--priority", "2", "--yes"],
        ["operations", "list"],
        ["operations", "show", "1"],
        ["failures", "retry", group.fingerprint, "--yes"],
        ["audit"],
        ["flows", "list"],
    ]
    for command in commands:
        for more in ([], ["--json"]):
            code = await asyncio.to_thread(main, [*command, "--dsn", dsn, *more])
            printed = capsys.readouterr()
            # 1: there is nothing left to do for the second of two.
            assert code in (0, 1), (command, printed.err)
            assert leaks(printed.out + printed.err) == [], command


async def test_flows_and_machines_show_none_of_them(
    app: App, dsn: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")

    async def log_in(token: str) -> dict[str, str]:
        return {"session_token": INNER, "user": f"ann with {token}"}

    async def charge(token: str) -> None:
        raise ConnectionError(f"the bank is away, {token} was not charged")

    @app.flow(queue="money", retry=Retry(max_attempts=1))
    async def order(flow: Flow, api_token: str, options: dict[str, Any]) -> None:
        await flow.step("log in", log_in, api_token)
        await flow.wait_event("paid", type=dict[str, str])
        await flow.step("charge", charge, options["password"], retry=Retry(max_attempts=1))

    @app.machine(queue="money", retry=Retry(max_attempts=1))
    class Login(Machine[None]):
        @dataclass
        class Begin(Step):
            user: str

            async def run(self) -> Next:
                return Next(Login.Check(NAMED, {"password": DEEP}))

        @dataclass
        class Check(Step):
            access_token: str
            options: dict[str, str]

            async def run(self) -> Done[None]:
                raise ValueError(f"refused {self.access_token}, {self.options}")

    flow, machine = await order.enqueue(NAMED, {"password": DEEP}), await Login.enqueue(Login.Begin("ann"))
    async with app.worker(queues={"money": 2}):

        async def waits() -> bool:
            return (await flow.status()).state == "waiting"

        await until(waits)
        await app.flows.emit("paid", {"client_secret": MARKED}, by="ann")
        await settled(flow, machine)
    async with App(dsn) as stranger:
        for asked in (app, stranger):
            records = [await asked.flows.show(each.id) for each in (flow, machine)]
            assert leaks(repr(records)) == []
            assert records[0].steps[0].value == {"session_token": MASK, "user": f"ann with {MASK}"}
            assert records[1].steps[1].value == {"access_token": MASK, "options": {"password": MASK}}
            assert leaks(repr([await asked.flows.list(), await asked.audit.list()])) == []
    for command in (
        ["flows", "list"],
        ["flows", "show", str(flow.id)],
        ["flows", "show", str(flow.id), "--graph"],
        ["flows", "show", str(machine.id)],
        ["flows", "resume", str(flow.id)],
    ):
        for more in ([], ["--json"]) if command[1] != "resume" else ([],):
            assert await asyncio.to_thread(main, [*command, "--dsn", dsn, *more]) == 0
    printed = capsys.readouterr()
    assert leaks(printed.out + printed.err) == []
    assert leaks(caplog.text) == []


async def test_schedules_mask_their_arguments_and_the_results_of_their_plans(app: App, dsn: str) -> None:
    @app.job
    async def rotate(api_token: str, options: dict[str, Any]) -> dict[str, str]:
        return {"new_token": api_token}

    await app.schedules.put(
        "rotation",
        rotate.call(NAMED, {"password": DEEP}),
        every=timedelta(days=1),
        by="ann",
        reason="security",
    )
    await app.schedules.run_now("rotation")
    async with app.worker():

        async def has_run() -> bool:
            return (await app.schedules.plans("rotation"))[0].state == "succeeded"

        await until(has_run)
    async with App(dsn) as stranger:
        for asked in (app, stranger):
            [schedule] = await asked.schedules.list()
            assert schedule.args == {"api_token": MASK, "options": {"password": MASK}}
            [plan] = await asked.schedules.plans("rotation")
            assert plan.result == {"new_token": MASK}
            assert leaks(repr([schedule, plan, await asked.audit.list()])) == []


async def test_a_search_for_a_secret_is_refused(app: App, pay: Job[..., Any], dsn: str) -> None:
    await pay.using(delay="1h").enqueue(1, **given())
    async with app.worker(queues={"money": 1}):  # stores what is secret
        pass
    async with App(dsn) as stranger:
        for asked in (app, stranger):
            for path in (
                "pin",
                "card",
                "card.number",
                "api_token",
                "options.login.Password",
                "options.list.0.client_secret",
            ):
                with pytest.raises(InvalidInput, match="is secret in pay, and cannot be searched for"):
                    await asked.jobs.list(f"args.{path}:s3cret")
                with pytest.raises(InvalidInput, match="is secret in pay"):
                    await asked.operations.preview("cancel", f"kind:pay args.{path}:s3cret")
            whole = ArgumentMatch(("options", "login"), json.dumps({"Password": DEEP, "user": "ann"}))
            with pytest.raises(InvalidInput, match="is secret in pay"):
                await asked.jobs.list(JobFilter(arguments=(whole,)))
            assert len((await asked.jobs.list("args.options.login.user:ann")).jobs) == 1
            assert len((await asked.jobs.list("args.order:1")).jobs) == 1


async def test_a_rerun_with_edited_arguments_keeps_what_is_masked(
    app: App, pay: Job[..., Any], dsn: str
) -> None:
    job = await pay.using(delay="1h").enqueue(1, **given())
    async with app.worker(queues={"money": 1}):
        pass
    async with App(dsn) as stranger:
        shown = (await stranger.jobs.show(job.id)).args
        new = await stranger.jobs.rerun(job.id, args=shown | {"order": 7, "api_token": "another"})
    with psycopg.connect(dsn) as connection:
        query = "select args from holdfast.job where id = any(%s) order by id"
        (stored,), (edited,) = connection.execute(query, ([job.id, new],)).fetchall()
    assert edited == stored | {"order": 7, "api_token": "another"}


async def test_an_argument_that_is_refused_does_not_quote_a_secret(app: App, pay: Job[..., Any]) -> None:
    wrong: list[dict[str, Any]] = [
        {"api_token": 5_555_555},
        {"options": [{"password": DEEP}]},
        {"options": {"login": {"password": DEEP, "when": object()}}},
        {"card": Card(NESTED, 5)},  # type: ignore[arg-type]
    ]
    for changes in wrong:
        with pytest.raises(InvalidArguments) as refused:
            await pay.enqueue(1, **(given() | changes))
        assert leaks(str(refused.value)) == []
        assert "5_555_555" not in str(refused.value).replace("5555555", "5_555_555")
    with pytest.raises(InvalidArguments, match="got str 'one'"):
        await pay.enqueue("one", **given())


async def test_an_app_chooses_its_patterns(dsn: str) -> None:
    async with App(dsn, secrets=["*iban*"]) as app:

        @app.job
        async def move(from_iban: str, password: str) -> None: ...

        async with app.worker():
            job = await move.using(delay="1h").enqueue("DE0001", password="open")
        assert (await app.jobs.show(job.id)).args == {"from_iban": MASK, "password": "open"}
    async with App(dsn, secrets=[]) as open_app:

        @open_app.job(name="tell")
        async def tell(password: str) -> None: ...

        told = await tell.using(delay="1h").enqueue("open")
        assert (await open_app.jobs.show(told.id)).args == {"password": "open"}


@pytest.mark.parametrize("secrets", ["*password*", [""], [5], ["a/b"], 7, ["nul\0"]])
def test_patterns_that_are_none_are_refused(secrets: Any) -> None:
    with pytest.raises(InvalidInput, match="give patterns of names"):
        App("embedded", secrets=secrets)


@pytest.mark.parametrize("version", ["renamed", "removed", "unmarked"])
async def test_a_newer_version_tells_no_secret_of_an_older_one(
    dsn: str, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A deploy changes a secret parameter while a job that was enqueued before is waiting."""
    async with App(dsn) as old:

        @old.job(name="bill", retry=Retry(max_attempts=1))
        async def billed(card: Secret[str], n: int) -> None: ...

        async with old.worker():  # which stores what is secret
            await (await billed.enqueue("4000-0001", 1)).result("30s")
        job = (await billed.enqueue("4222-8888", 5)).id
    async with App(dsn) as new:
        if version == "renamed":

            @new.job(name="bill", retry=Retry(max_attempts=1))
            async def renamed(pan: Secret[str], n: int) -> None: ...

        elif version == "removed":

            @new.job(name="bill", retry=Retry(max_attempts=1))
            async def removed(n: int) -> None: ...

        else:

            @new.job(name="bill", retry=Retry(max_attempts=1))
            async def unmarked(card: str, n: int) -> None:
                raise ValueError(f"no {card}")

        async with new.worker():
            await until(lambda: has_failed_once(new, job))
        shown = await new.jobs.show(job)
        listed = await new.jobs.list()
    assert "4222-8888" not in f"{shown} {listed}"
    assert "4222-8888" not in caplog.text


async def has_failed_once(app: App, job: int) -> bool:
    return bool((await app.jobs.show(job)).runs)
