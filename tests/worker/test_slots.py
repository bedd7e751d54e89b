"""How many jobs a worker claims at once: as many as were said, or more while they end at once."""

import asyncio
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from holdfast import App
from holdfast.app import worker_maker_of
from holdfast.cli.worker import worker
from holdfast.cli.worker_arguments import WorkerArguments
from holdfast.codec.signature import Signature
from holdfast.domain.job import Policy
from holdfast.worker.context import Context
from holdfast.worker.job_kind import Kind, Style
from holdfast.worker.options import WorkerOptions
from holdfast.worker.queue_choice import SLOTS
from holdfast.worker.slots import Slots, elastic_queues
from support.waiting import until


def slots_of(number: int, *, is_elastic: bool) -> Slots:
    return Slots({"default": number}, lambda: None, ["default"] if is_elastic else [])


def claim(slots: Slots, *, most: int = 500) -> int:
    """As the fetcher claims: a full claim."""
    share = slots.share("default", most)
    slots.take("default", share)
    return share


def end(slots: Slots, number: int) -> None:
    for _ in range(number):
        slots.give_back("default")


def test_jobs_that_end_at_once_are_claimed_more_and_more_at_a_time() -> None:
    slots = slots_of(100, is_elastic=True)
    claims = []
    for _ in range(6):
        claims.append(share := claim(slots))
        end(slots, share)
    assert claims == [50, 50, 100, 200, 250, 250]


def test_a_number_that_was_set_holds_whatever_jobs_do() -> None:
    slots = slots_of(100, is_elastic=False)
    claims = []
    for _ in range(6):
        claims.append(share := claim(slots))
        end(slots, share)
    assert claims == [50] * 6


def test_jobs_that_take_their_time_are_claimed_up_to_the_number_and_no_further() -> None:
    slots = slots_of(100, is_elastic=True)
    assert [claim(slots), claim(slots)] == [50, 50]
    assert slots.free("default") == 0


def test_the_number_holds_again_when_jobs_begin_to_take_their_time() -> None:
    slots = slots_of(100, is_elastic=True)
    for _ in range(5):
        end(slots, claim(slots))
    assert claim(slots) == 250
    claim(slots)
    assert slots.used <= 500
    assert slots.free("default") < 0
    end(slots, slots.used - 60)
    assert claim(slots) == 40


def test_a_few_long_jobs_do_not_hold_back_many_short_ones() -> None:
    slots = slots_of(100, is_elastic=True)
    slots.take("default", 10)
    claims = []
    for _ in range(5):
        claims.append(share := claim(slots))
        end(slots, share)
    assert claims == [50, 50, 100, 200, 250]


def test_after_a_claim_that_found_all_there_was_claims_begin_small_again() -> None:
    slots = slots_of(100, is_elastic=True)
    for _ in range(5):
        end(slots, claim(slots))
    slots.take("default", 3)
    end(slots, 3)
    assert [claim(slots), claim(slots)] == [50, 50]


def test_claims_that_are_small_for_want_of_child_processes_prove_nothing() -> None:
    slots = slots_of(100, is_elastic=True)
    for _ in range(5):
        slots.take("default", 2)
        end(slots, 2)
    assert [claim(slots), claim(slots)] == [50, 50]
    assert slots.free("default") == 0


@given(st.integers(1, 300), st.booleans(), st.lists(st.tuples(st.booleans(), st.integers(0, 600))))
def test_never_more_than_five_times_the_number_run(
    number: int, is_elastic: bool, turns: list[tuple[bool, int]]
) -> None:
    slots = slots_of(number, is_elastic=is_elastic)
    for is_full, ending in turns:
        if slots.free("default") > 0:
            share = slots.share("default", 500)
            assert share > 0
            slots.take("default", share if is_full else share // 2)
        assert slots.used <= number * (5 if is_elastic else 1)
        end(slots, min(ending, slots.used))


def test_the_pages_and_the_command_say_the_standard_number() -> None:
    docs = Path(__file__).parents[2] / "docs"
    said = {
        "how-to/run-a-worker.md": f"a process runs {SLOTS} jobs of a queue at once",
        "reference/cli.md": f"the app's `slots`, or {SLOTS} (",
        "reference/app.md": f"say otherwise; {SLOTS} by default",
    }
    for page, sentence in said.items():
        assert sentence in (docs / page).read_text("utf-8"), page
    help_text = " ".join(CliRunner().invoke(worker, ["--help"]).output.split())
    assert f"(--slots, else {SLOTS})" in help_text


async def nothing() -> None: ...


def kind(style: Style) -> Kind:
    return Kind(Policy("mail"), nothing, Signature.of(nothing, context=Context), style=style)


@pytest.mark.parametrize("style", ["thread", "flow", "machine"])
def test_no_queue_is_elastic_beside_jobs_that_may_need_a_thread(style: Style) -> None:
    queues = {"default": SLOTS, "mail": 100}
    assert elastic_queues(queues, {"mail": kind("coroutine")}) == {"default"}
    assert elastic_queues(queues, {"mail": kind("coroutine"), "pdf": kind(style)}) == set()


def test_only_the_standard_number_is_elastic() -> None:
    kinds = {"mail": kind("coroutine")}
    app = App("host=nowhere", slots={"pdf": 100})
    app.job(queue="mail")(nothing)
    maker = worker_maker_of(app)
    assert elastic_queues(WorkerOptions().queues, kinds) == {"default"}
    assert elastic_queues(maker.options(None, None, None).queues, kinds) == {"mail"}
    assert elastic_queues(maker.options(["mail", "pdf"], {"mail": 100}, None).queues, kinds) == set()
    assert elastic_queues(maker.options({"mail": 100}, None, None).queues, kinds) == set()
    second = timedelta(seconds=1)
    asked = WorkerArguments(
        queues={"mail": None, "pdf": None, "b": 100}, grace=second, lease=second, once=True
    )
    assert elastic_queues(asked.options(app).queues, kinds) == {"mail"}


async def test_as_many_slow_jobs_run_as_the_standard_number_says(dsn: str) -> None:
    gate = asyncio.Event()
    async with App(dsn) as app:

        @app.job
        async def wait() -> None:
            await gate.wait()

        @app.job
        async def pass_by() -> None: ...

        await app.enqueue_many(pass_by.call() for _ in range(2_000))
        async with app.worker():
            with psycopg.connect(dsn, autocommit=True) as conn:

                def count(table: str) -> int:
                    row = conn.execute(f"select count(*) from holdfast.{table}").fetchone()
                    assert row
                    return int(row[0])

                await until(lambda: count("ledger") == 2_000, "all short jobs have ended")
                await app.enqueue_many(wait.call() for _ in range(1_000))
                await until(lambda: count("lease") >= SLOTS, "all slots are taken")
                running = count("lease")
                gate.set()
    assert running == SLOTS
