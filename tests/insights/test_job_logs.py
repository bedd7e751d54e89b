"""Log lines of a handler that are kept with its job: which, how many, and what else must not suffer."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.worker_processes import enqueue, worker_process
from holdfast import App, Context, Done, Flow, Handle, Machine, Next, Retry, Secret, Step
from holdfast.domain import kept_logs
from holdfast.errors import InvalidInput, JobEnded, JobNotFound
from holdfast.insights.log_records import LogLine
from holdfast.worker import log_keeper
from support.outages import begin_outage
from support.waiting import until
from worker import chatty_handlers

library = logging.getLogger("some.library")
ONCE = Retry(max_attempts=1)
AGAIN = Retry(max_attempts=2, backoff="0s")


@pytest.fixture(autouse=True)
def informed() -> Iterator[None]:
    """As `holdfast worker` sets it up: from INFO on."""
    before = logging.root.level
    logging.root.setLevel(logging.INFO)
    yield
    logging.root.setLevel(before)


@pytest.fixture
async def keeping(dsn: str) -> AsyncIterator[App]:
    async with App(dsn, keep_logs="always") as app:
        yield app


@contextmanager
def without_other_handlers() -> Iterator[None]:
    """As in a program that has not set up logging."""
    others = [each for each in logging.root.handlers if type(each).__name__ != "LineCatcher"]
    for each in others:
        logging.root.removeHandler(each)
    try:
        yield
    finally:
        for each in others:
            logging.root.addHandler(each)


async def ended(*handles: Handle[Any]) -> None:
    for handle in handles:
        with suppress(JobEnded):
            await handle.result("60s")


async def messages(app: App, job: int) -> list[str]:
    return [line.message for line in (await app.jobs.logs(job)).lines]


def stored(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        [(count,)] = connection.execute("select count(*) from holdfast.run_log").fetchall()
    return int(count)


def said(lines: Sequence[LogLine]) -> list[tuple[str, str, str]]:
    return [(line.level, line.logger, line.message) for line in lines]


async def test_lines_of_ctx_log_and_of_libraries_are_kept_in_order(keeping: App) -> None:
    @keeping.job
    async def charge(ctx: Context) -> None:
        ctx.log.info("asking %s", "the bank")
        library.warning("slow answer")
        await asyncio.create_task(nested())

    async def nested() -> None:
        try:
            os.close(-1)
        except OSError:
            logging.getLogger("some.library.http").exception("trying again")

    before = datetime.now(UTC) - timedelta(seconds=1)
    handle = await charge.enqueue()
    async with keeping.worker():
        await ended(handle)
    page = await keeping.jobs.logs(handle.id)
    first, second, third = page.lines
    assert said([first, second]) == [
        ("INFO", "holdfast.job.charge", "asking the bank"),
        ("WARNING", "some.library", "slow answer"),
    ]
    assert (third.level, third.logger) == ("ERROR", "some.library.http")
    assert third.message.startswith("trying again\nTraceback")
    assert third.message.endswith("Bad file descriptor")
    assert [line.number for line in page.lines] == [1, 2, 3]
    assert before < first.time < datetime.now(UTC) + timedelta(seconds=1)
    [run] = (await keeping.jobs.show(handle.id)).runs
    assert {line.run for line in page.lines} == {run.run}
    assert not page.has_more


async def test_a_plain_function_in_a_thread_keeps_its_lines(keeping: App) -> None:
    @keeping.job
    def work(ctx: Context, words: list[str]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        chatty_handlers.say(ctx, words)

    handle = await work.enqueue(["one", "two"])
    async with keeping.worker():
        await ended(handle)
    assert await messages(keeping, handle.id) == ["one", "two"]


async def test_a_child_process_sends_its_lines_to_the_worker(keeping: App) -> None:
    say = keeping.job(isolate="process", retry=ONCE)(chatty_handlers.say)
    handles = [await say.enqueue(["one", "two"]), await say.enqueue(["three"], is_failing=True)]
    async with keeping.worker():
        await ended(*handles)
    lines = (await keeping.jobs.logs(handles[0].id)).lines
    assert said(lines) == [("INFO", "some.library", "one"), ("INFO", "holdfast.job.say", "two")]
    assert await messages(keeping, handles[1].id) == ["three"]


async def test_flows_and_machines_keep_their_lines_by_run(keeping: App) -> None:
    @keeping.flow
    async def trip(flow: Flow) -> None:
        library.info("packing")
        await flow.step("book", lambda: library.info("booking"))
        await flow.sleep("rest", "10ms")
        library.info("leaving")

    @keeping.machine
    class Import(Machine[None]):
        class Read(Step):
            async def run(self) -> Next:
                library.info("reading")
                return Next(Import.Write())

        class Write(Step):
            def run(self, ctx: Context) -> Done[None]:
                ctx.log.info("writing")
                return Done(None)

    flow, machine = await trip.enqueue(), await Import.enqueue(Import.Read())
    async with keeping.worker():
        await ended(flow, machine)
    lines = (await keeping.jobs.logs(flow.id)).lines
    first, second = sorted({line.run for line in lines})
    assert [line.message for line in lines if line.run == first] == ["packing", "booking"]
    assert [line.message for line in lines if line.run == second] == ["packing", "leaving"]
    assert await messages(keeping, machine.id) == ["reading", "writing"]


async def test_jobs_that_run_at_once_never_mix_their_lines(keeping: App) -> None:
    together = threading.Barrier(4)

    @keeping.job
    async def awaits(name: str) -> None:
        for number in range(20):
            library.info("%s %d", name, number)
            await asyncio.sleep(0)

    @keeping.job
    def blocks(name: str) -> None:
        together.wait(30)
        for number in range(20):
            library.info("%s %d", name, number)

    handles = {name: await awaits.enqueue(name) for name in "abcd"}
    handles |= {name: await blocks.enqueue(name) for name in "efgh"}
    async with keeping.worker():
        await ended(*handles.values())
    for name, handle in handles.items():
        assert await messages(keeping, handle.id) == [f"{name} {number}" for number in range(20)]


async def test_lines_are_kept_on_failure_of_the_runs_that_failed(app: App, dsn: str) -> None:
    @app.job(keep_logs="on_failure", retry=AGAIN)
    async def work(ctx: Context, is_lucky: bool = False) -> None:
        ctx.log.info("attempt %d", ctx.attempt)
        if not is_lucky and ctx.attempt == 1:
            raise ValueError("not yet")

    unlucky, lucky = await work.enqueue(), await work.enqueue(is_lucky=True)
    async with app.worker():
        await ended(unlucky, lucky)
    assert await messages(app, unlucky.id) == ["attempt 1"], "its second run succeeded"
    assert await messages(app, lucky.id) == []
    assert stored(dsn) == 1


async def test_a_kind_says_it_for_itself_and_nothing_is_kept_by_default(keeping: App, dsn: str) -> None:
    @keeping.job(keep_logs="never")
    async def quiet() -> None:
        library.warning("nobody reads this")

    async with App(dsn) as plain:

        @plain.job(queue="plain")
        async def silent() -> None:
            library.warning("nor this")

        handles = await quiet.enqueue(), await silent.enqueue()
        async with keeping.worker(), plain.worker():
            await ended(*handles)
    assert stored(dsn) == 0


async def test_runs_of_a_retried_job_keep_theirs_apart(keeping: App) -> None:
    @keeping.job(retry=ONCE)
    async def work(ctx: Context) -> None:
        library.info("run %d", ctx.fencing_token)
        raise ValueError("no")

    handle = await work.enqueue()
    async with keeping.worker():
        await ended(handle)
        await keeping.jobs.retry(handle.id)
        await ended(handle)
    runs = [run.run for run in (await keeping.jobs.show(handle.id)).runs]
    assert len(runs) == 2
    assert await messages(keeping, handle.id) == [f"run {run}" for run in runs]
    page = await keeping.jobs.logs(handle.id, run=runs[1])
    assert [line.message for line in page.lines] == [f"run {runs[1]}"]


async def test_the_newest_lines_are_kept_within_bounds_and_a_gap_says_how_many_are_missing(
    keeping: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.worker import run_lines

    monkeypatch.setattr(run_lines, "LINES", 5)

    @keeping.job
    async def count() -> None:
        for number in range(1, 13):
            library.info("%d", number)

    @keeping.job
    async def long() -> None:
        library.info("x" * 20_000)
        for _ in range(100):
            library.info("y" * 10_000)

    handles = [await count.enqueue(), await long.enqueue()]
    async with keeping.worker():
        await ended(*handles)
        lines = (await keeping.jobs.logs(handles[0].id)).lines
    assert [line.message for line in lines] == ["8", "9", "10", "11", "12"]
    assert [line.dropped for line in lines] == [7, 0, 0, 0, 0]
    monkeypatch.undo()
    lines = (await keeping.jobs.logs(handles[1].id)).lines
    assert sum(len(line.message) for line in lines) <= kept_logs.CHARACTERS
    assert len(lines) == 5


async def test_a_run_that_goes_on_keeps_the_newest_of_what_it_has_written(
    keeping: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.worker import run_lines

    monkeypatch.setattr(run_lines, "LINES", 4)
    monkeypatch.setattr(log_keeper, "LIVE_SECONDS", 0.05)
    go_on = asyncio.Event()

    @keeping.job
    async def talk() -> None:
        for part in range(3):
            for number in range(3):
                library.info("%d.%d", part, number)
            await go_on.wait()
            go_on.clear()

    handle = await talk.enqueue()
    async with keeping.worker():
        for part in range(3):

            async def is_written(part: int = part) -> bool:
                return f"{part}.2" in await messages(keeping, handle.id)

            await until(is_written)
            go_on.set()
        await ended(handle)
    assert await messages(keeping, handle.id) == ["2.0", "2.1", "2.2"]


async def test_a_line_that_is_too_long_is_cut(keeping: App) -> None:
    @keeping.job
    async def work() -> None:
        library.info("x" * 100_000)

    handle = await work.enqueue()
    async with keeping.worker():
        await ended(handle)
    assert await messages(keeping, handle.id) == ["x" * kept_logs.LINE_CHARACTERS]


async def test_lines_can_be_read_while_the_run_goes_on(keeping: App) -> None:
    may_end = asyncio.Event()

    @keeping.job
    async def work() -> None:
        library.info("half way")
        await may_end.wait()
        library.info("done")

    handle = await work.enqueue()
    async with keeping.worker():

        async def is_told() -> bool:
            return await messages(keeping, handle.id) == ["half way"]

        await until(is_told)
        page = await keeping.jobs.logs(handle.id)
        may_end.set()
        await ended(handle)
    assert [line.message for line in (await keeping.jobs.logs(handle.id, after=page.next)).lines] == ["done"]


async def test_whoever_sees_the_end_of_a_job_can_read_its_lines(keeping: App, dsn: str) -> None:
    """Although writing them takes longer than settling the job would."""

    @keeping.job
    async def work() -> None:
        library.info("done")

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "create function slow() returns trigger language plpgsql as"
            " $$ begin perform pg_sleep(0.3); return new; end $$;"
            "create trigger slow before insert on holdfast.run_log for each statement execute function slow()"
        )
    async with keeping.worker():
        for _ in range(2):
            handle = await work.enqueue()
            await ended(handle)
            assert await messages(keeping, handle.id) == ["done"]


async def test_secrets_are_masked_in_lines(keeping: App, dsn: str) -> None:
    @keeping.job
    async def charge(card: Secret[str], order: int) -> None:
        library.info("card %s, order %d", card, order)

    handle = await charge.enqueue("4111-1111", 12)
    async with keeping.worker():
        await ended(handle)
    assert await messages(keeping, handle.id) == ["card [secret], order 12"]
    with psycopg.connect(dsn) as connection:
        [(text,)] = connection.execute("select lines::text from holdfast.run_log").fetchall()
    assert "4111" not in text


@dataclass(frozen=True)
class Limits:
    pin: Secret[str]


async def test_defaults_of_secret_parameters_are_masked_in_lines_and_errors(dsn: str) -> None:
    async with App(dsn, keep_logs="always", secrets=["iban"]) as app:

        @app.job(retry=ONCE)
        async def charge(
            order: int,
            card: Secret[str] = "4111-1111",
            *,
            iban: str = "DE89 3704",
            limits: Limits = Limits("9876"),  # noqa: B008  # frozen
        ) -> None:
            library.info("order %d, card %s, iban %s, pin %s", order, card, iban, limits.pin)
            raise ValueError(f"refused {card} {iban} {limits.pin}")

        handle = await charge.enqueue(12)
        async with app.worker():
            with pytest.raises(JobEnded) as end:
                await handle.result("60s")
        masked = "card [secret], iban [secret], pin [secret]"
        assert await messages(app, handle.id) == [f"order 12, {masked}"]
        assert end.value.error["message"] == "refused [secret] [secret] [secret]"
    with psycopg.connect(dsn) as connection:
        [(lines, error)] = connection.execute(
            "select l.lines::text, g.error::text from holdfast.run_log l join holdfast.ledger g using (job)"
        ).fetchall()
    assert not [secret for secret in ("4111", "3704", "9876") if secret in lines + error]


async def test_a_line_of_any_characters_is_kept(keeping: App) -> None:
    @keeping.job
    async def work() -> None:
        library.info("a\0b \udcff %s", "ü")

    async with keeping.worker():
        with without_other_handlers():  # pytest cannot print it
            handle = await work.enqueue()
            await ended(handle)
    assert await messages(keeping, handle.id) == ["a\ufffdb ? ü"]


async def test_lines_of_a_run_that_lost_its_lease_are_kept(app: App, dsn: str) -> None:
    running = asyncio.Event()

    @app.job(keep_logs="on_failure")
    async def work() -> None:
        library.info("on my way")
        running.set()
        await asyncio.Event().wait()

    handle = await work.enqueue()
    async with app.worker(grace="0s"):
        await running.wait()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("update holdfast.worker set lost_at = now()")
            connection.execute("delete from holdfast.lease")

        async def is_kept() -> bool:
            return await messages(app, handle.id) == ["on my way"]

        await until(is_kept)


async def test_a_log_that_cannot_be_written_neither_fails_nor_holds_up_its_job(
    keeping: App, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    @keeping.job
    async def work(number: int) -> int:
        library.info("line %d", number)
        return number

    handles = [await work.enqueue(number) for number in range(5)]
    with psycopg.connect(dsn, autocommit=True) as connection:
        begin_outage(connection, "run_log", "53100", 10_000)
        async with keeping.worker():
            for number, handle in enumerate(handles):
                assert await handle.result("60s") == number
            await until(lambda: "keeping log lines of jobs fails" in caplog.text)
            connection.execute("drop trigger outage on holdfast.run_log")
            await until(lambda: stored(dsn) == 5)
    assert "keeping log lines of jobs fails and is retried" in caplog.text
    assert "keeping log lines of jobs works again" in caplog.text


async def test_no_end_waits_for_long_for_a_log_that_is_locked(
    keeping: App, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_keeper, "_WRITE_SECONDS", 60)

    @keeping.job
    async def work() -> None:
        library.info("a line")

    handle = await work.enqueue()
    with psycopg.connect(dsn) as connection:
        connection.execute("lock table holdfast.run_log in access exclusive mode")
        async with keeping.worker():
            await handle.result("30s")
            connection.rollback()
            await until(lambda: stored(dsn) == 1)


async def test_what_the_database_refuses_for_good_is_dropped_and_said(
    keeping: App, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    @keeping.job
    async def work() -> None:
        library.info("a line")

    with psycopg.connect(dsn, autocommit=True) as connection:
        begin_outage(connection, "run_log", "42501", 1)
    first, second = await work.enqueue(), await work.using(delay="1h").enqueue()
    async with keeping.worker():
        await ended(first)
        await keeping.jobs.reschedule(second.id, "0s")
        await ended(second)
    assert await messages(keeping, first.id) == []
    assert await messages(keeping, second.id) == ["a line"]
    assert f"log lines of job {first.id} and maybe others are not kept" in caplog.text
    assert "1 log lines of jobs are not kept" in caplog.text


async def test_the_memory_for_lines_that_wait_is_bounded(
    keeping: App, dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_keeper, "WAITING_SIZE", 250)

    @keeping.job
    async def work(number: int) -> None:
        library.info("%s", str(number) * 100)

    async with keeping.worker():
        with psycopg.connect(dsn, autocommit=True) as connection:
            begin_outage(connection, "run_log", "53100", 10_000)
            handles = [await work.enqueue(number) for number in range(6)]
            await ended(*handles)
            connection.execute("drop trigger outage on holdfast.run_log")
        await until(lambda: "log lines of jobs are not kept" in caplog.text)
    kept = stored(dsn)
    assert kept < 6
    assert "too many wait for the database" in caplog.text
    assert f"{6 - kept} log lines of jobs are not kept" in caplog.text


async def test_lines_go_with_their_job(keeping: App, dsn: str) -> None:
    @keeping.job
    async def work() -> None:
        library.info("a line")

    deleted, kept = await work.enqueue(), await work.enqueue()
    pruned = await work.using(keep="1s").enqueue()
    at_once = await work.using(keep="0s").enqueue()
    async with keeping.worker():
        for handle in (deleted, kept, pruned):
            await ended(handle)
        await keeping.jobs.delete(deleted.id)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "update holdfast.ledger set keep_until = now() - interval '1h' where job = any(%s)",
                [[pruned.id, at_once.id]],
            )
        await until(lambda: stored(dsn) == 1)
    assert await messages(keeping, kept.id) == ["a line"]


async def test_pages_go_on_where_the_one_before_ended(keeping: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_keeper, "LIVE_SECONDS", 0.02)

    @keeping.job(retry=AGAIN)
    async def work() -> None:
        for number in range(7):
            library.info("%d", number)
            if number in (1, 4):
                await asyncio.sleep(0.1)
        raise ValueError("no")

    handle = await work.enqueue()
    async with keeping.worker():
        await ended(handle)
    everything = (await keeping.jobs.logs(handle.id)).lines
    assert [line.number for line in everything] == [1, 2, 3, 4, 5, 6, 7] * 2
    page = await keeping.jobs.logs(handle.id, limit=1)
    for limit in (1, 2, 3, 5, 14, 15):
        read: list[LogLine] = []
        page = await keeping.jobs.logs(handle.id, limit=limit)
        read += page.lines
        while page.has_more:
            assert len(page.lines) == limit
            page = await keeping.jobs.logs(handle.id, limit=limit, after=page.next)
            read += page.lines
        assert tuple(read) == everything
    assert (await keeping.jobs.logs(handle.id, after=page.next)).next == page.next


async def test_show_has_the_newest_lines(keeping: App) -> None:
    @keeping.job
    async def work(count: int) -> None:
        for number in range(count):
            library.info("%d", number)

    few, many = await work.enqueue(2), await work.enqueue(70)
    async with keeping.worker():
        await ended(few, many)
    shown = await keeping.jobs.show(few.id)
    assert [line.message for line in shown.logs] == ["0", "1"]
    assert not shown.has_more_logs
    shown = await keeping.jobs.show(many.id)
    assert [line.message for line in shown.logs] == [str(number) for number in range(20, 70)]
    assert shown.has_more_logs


async def test_wrong_questions_get_an_answer(keeping: App) -> None:
    with pytest.raises(JobNotFound):
        await keeping.jobs.logs(99)
    with pytest.raises(InvalidInput, match="run is 0"):
        await keeping.jobs.logs(1, run=0)
    with pytest.raises(InvalidInput, match="after is 'x'"):
        await keeping.jobs.logs(1, after="x")


async def test_warnings_still_reach_stderr_where_logging_is_not_set_up(
    keeping: App, capfd: pytest.CaptureFixture[str]
) -> None:
    @keeping.job
    async def work() -> None:
        library.info("only kept")
        library.warning("also printed")

    handle = await work.enqueue()
    async with keeping.worker():
        with without_other_handlers():
            await ended(handle)
    assert await messages(keeping, handle.id) == ["only kept", "also printed"]
    printed = capfd.readouterr().err
    assert "also printed" in printed
    assert "only kept" not in printed


async def test_the_root_logger_is_left_as_it_was(keeping: App) -> None:
    @keeping.job
    async def work() -> None: ...

    before = list(logging.root.handlers)
    async with keeping.worker():
        await ended(await work.enqueue())
        await until(lambda: len(logging.root.handlers) == len(before) + 1)
    assert logging.root.handlers == before


async def test_logging_that_is_set_up_again_does_not_end_it(keeping: App) -> None:
    @keeping.job
    async def work() -> None:
        library.info("a line")

    async with keeping.worker():
        await ended(await work.enqueue())
        for handler in list(logging.root.handlers):
            if type(handler).__name__ == "LineCatcher":
                logging.root.removeHandler(handler)
        second = await work.enqueue()
        await ended(second)
    assert await messages(keeping, second.id) == ["a line"]


async def test_a_forked_child_can_log(keeping: App) -> None:
    @keeping.job
    def work() -> int:
        library.info("before")
        pid = os.fork()
        if not pid:
            library.info("in the child")
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        library.info("after")
        return status

    handle = await work.enqueue()
    async with keeping.worker():
        assert await handle.result("60s") == 0
    assert await messages(keeping, handle.id) == ["before", "after"]


async def test_lines_that_a_killed_worker_had_written_are_there(dsn: str, tmp_path: Path) -> None:
    """It is killed in the middle of a run that logs."""
    (tmp_path / "talker.py").write_text(
        "import asyncio\n"
        "from holdfast import App, Context\n"
        "app = App(keep_logs='always')\n"
        "@app.job\n"
        "async def talk(ctx: Context) -> None:\n"
        "    for number in range(10_000):\n"
        "        ctx.log.info('line %d', number)\n"
        "        await asyncio.sleep(0.01)\n",
        "utf-8",
    )
    with worker_process(tmp_path, dsn, "-A", "talker:app") as worker:
        async with App(dsn) as app:
            with psycopg.connect(dsn, autocommit=True) as connection:
                job = enqueue(connection, "talk")
            await until(lambda: stored(dsn) >= 2, lambda: worker.log)
            worker.signal(signal.SIGKILL)
            worker.ended()
            lines = (await app.jobs.logs(job, limit=1_000)).lines
    assert [line.number for line in lines] == list(range(1, len(lines) + 1)), "without a gap"
    assert [line.message for line in lines] == [f"line {number}" for number in range(len(lines))]
