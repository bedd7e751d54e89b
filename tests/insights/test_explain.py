"""`app.jobs.explain`: each reason why a job is not running, produced by a real situation."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import get_args

import psycopg
import pytest

from holdfast import App, Context, Flow, Job, Retry, WorkerOptions
from holdfast.errors import FlowDiverged, InvalidInput
from holdfast.insights.job_records import Explanation, Reason
from holdfast.storage.ring import park
from holdfast.storage.workers import register
from support.blocking_in_a_loop import both_colours
from support.waiting import until


@pytest.fixture
def work(app: App) -> Job[[int], int]:
    @app.job(queue="mail", retry=Retry(max_attempts=2, backoff="1h"))
    async def work(number: int) -> int:
        if number < 0:
            raise ValueError("too small")
        return number

    return work


async def told(app: App, job: int, reason: str) -> Explanation:
    """The explanation, once it gives this reason."""
    last: list[Explanation] = []

    async def is_so() -> bool:
        last[:] = [await app.jobs.explain(job)]
        return last[0].reason == reason

    await until(is_so)
    return last[0]


@both_colours
async def test_a_job_of_a_paused_queue_says_so_with_the_note(app: App, work: Job[[int], int]) -> None:
    await app.queues.pause("mail", note="moving house", until="2h")
    job = (await work.enqueue(1)).id
    found = await told(app, job, "queue_paused")
    assert found.sentence.startswith('The queue "mail" was paused ')
    assert '("moving house").' in found.sentence
    assert ", for another 2h (" in found.sentence or ", for another 1h 59m (" in found.sentence
    assert found.advice == "Resume it with: holdfast queues resume mail"
    assert app.jobs.explain_sync(job).reason == "queue_paused"


async def test_without_any_worker_a_job_says_to_start_one(app: App, work: Job[[int], int]) -> None:
    found = await told(app, (await work.enqueue(1)).id, "no_worker")
    assert str(found) == "No worker is running. Start one with: holdfast worker -A …"


async def test_a_queue_that_no_worker_serves_is_named_with_the_one_that_was_meant(
    app: App, work: Job[[int], int]
) -> None:
    async with app.worker(queues={"mail": 1}):
        found = await told(app, (await work.using(queue="mial").enqueue(1)).id, "queue_unserved")
    assert found.sentence == 'No live worker serves the queue "mial" (did you mean "mail"?).'


async def test_a_kind_that_no_worker_knows_is_named_with_the_one_that_was_meant(app: App, dsn: str) -> None:
    @app.job(queue="mail")
    async def send_welcome() -> None: ...

    async with App(dsn) as other:

        @other.job(queue="mail", name="send_wellcome")
        async def misspelt() -> None: ...

        job = (await misspelt.enqueue()).id
    async with app.worker(queues={"mail": 1}):
        found = await told(app, job, "kind_unknown")
    assert found.sentence == 'No live worker knows the kind "send_wellcome" (did you mean "send_welcome"?).'


async def test_a_worker_must_both_serve_the_queue_and_know_the_kind(
    app: App, work: Job[[int], int], dsn: str
) -> None:
    async with App(dsn) as other:

        @other.job(queue="pdf")
        async def render() -> None: ...

        async with app.worker(queues={"mail": 1}), other.worker(queues={"pdf": 1}):
            found = await told(app, (await work.using(queue="pdf").enqueue(1)).id, "no_worker_for_both")
    assert found.sentence == 'Live workers serve the queue "pdf", but none of them knows the kind "work".'


async def test_busy_slots_are_told_with_what_keeps_them_busy(app: App, work: Job[[int], int]) -> None:
    release = asyncio.Event()

    @app.job(queue="mail")
    async def import_catalogue() -> None:
        await release.wait()

    async with app.worker(queues={"mail": 1}):
        running = await import_catalogue.enqueue()
        await told(app, running.id, "running")
        first, second = await work.enqueue(1), await work.enqueue(2)
        found = await told(app, second.id, "slots_busy")
        assert (
            "All 1 slots of its queue in the one worker that can run it are busy, most with import_catalogue"
            in found.sentence
        )
        assert found.sentence.endswith("1 job is ahead of it.")
        release.set()
        assert await second.result("60s") == 2
        assert (await told(app, first.id, "ended")).sentence.startswith("It succeeded ")


async def test_free_slots_of_other_queues_do_not_count(app: App, work: Job[[int], int]) -> None:
    release = asyncio.Event()

    @app.job(queue="mail")
    async def block() -> None:
        await release.wait()

    async with app.worker(queues={"mail": 1, "other": 50}):
        await told(app, (await block.enqueue()).id, "running")
        waiting = await work.enqueue(1)
        found = await told(app, waiting.id, "slots_busy")
        assert found.sentence.startswith("All 1 slots of its queue in the one worker")
        release.set()
        assert await waiting.result("60s") == 1


async def test_a_failed_flow_is_advised_to_go_on_behind_its_steps(app: App) -> None:
    async def charge() -> None: ...

    async def show() -> None:
        raise ValueError("no paper")

    @app.flow(retry=Retry(max_attempts=1))
    async def order(flow: Flow) -> None:
        await flow.step("charge", charge)
        await flow.step("print", show)

    handle = await order.enqueue()
    async with app.worker():
        found = await told(app, handle.id, "ended")
    assert found.advice.endswith(f"holdfast flows resume {handle.id}")


async def test_a_delayed_job_and_a_retry_say_when(app: App, work: Job[[int], int]) -> None:
    later = await work.using(delay="2h").enqueue(1)
    bad = await work.enqueue(-1)
    async with app.worker(queues={"mail": 1}):
        found = await told(app, bad.id, "retry")
        assert found.sentence.startswith(
            "Attempt 1 of 2 ended with ValueError: too small. It is tried again at 20"
        )
        assert found.sentence.endswith("in 59m 59s.") or "in 1h" in found.sentence
    found = await told(app, later.id, "scheduled")
    assert found.sentence.startswith("It is to run at 20")


async def test_a_job_that_is_due_without_a_leader_says_so(app: App, work: Job[[int], int]) -> None:
    job = await work.using(delay="1ms").enqueue(1)
    found = await told(app, job.id, "no_leader")
    assert "no worker leads" in found.sentence


async def test_stored_arguments_that_do_not_fit_are_told(app: App, work: Job[[int], int], dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        [job] = connection.execute(
            """select holdfast.enqueue('work', '{"numbr": 1}', queue => 'mail')"""
        ).fetchone() or [0]
    async with app.worker(queues={"mail": 1}):
        found = await told(app, job, "does_not_fit")
    assert "numbr" in found.sentence


async def test_a_flow_whose_code_has_changed_is_advised_to_correct_it_first(app: App, dsn: str) -> None:
    @app.flow(name="order")
    async def before(flow: Flow) -> None:
        await flow.step("charge", str)
        await flow.wait_event("go")

    handle = await before.enqueue()
    async with app.worker():
        await told(app, handle.id, "waits_for_event")
    heard: list[BaseException] = []
    async with App(dsn) as later:

        @later.flow(name="order", on_failure=lambda _, error: heard.append(error))
        async def after(flow: Flow) -> None:
            await flow.step("charge the card " + "x" * 100, str)
            await flow.wait_event("go")

        await later.emit("go")
        async with later.worker():
            found = await told(later, handle.id, "ended")
    assert found.sentence.endswith("…")
    assert found.advice.startswith("Correct its code, or go back")
    assert found.advice.endswith(f"holdfast flows resume {handle.id}")
    [error] = heard
    assert isinstance(error, FlowDiverged)
    assert error.__cause__ is None
    assert 'is the new name of "charge", keep' in str(error)


async def test_a_flow_says_which_event_or_job_it_waits_for(app: App, work: Job[[int], int]) -> None:
    @app.flow(queue="mail")
    async def wait(flow: Flow) -> None:
        await flow.wait_event("packed:42", type=str, timeout="7 days")

    @app.flow(queue="mail")
    async def call(flow: Flow) -> int:
        return await flow.call(work.using(queue="nowhere"), 1)

    event, child = await wait.enqueue(), await call.enqueue()
    async with app.worker(queues={"mail": 2}):
        found = await told(app, event.id, "waits_for_event")
        assert found.sentence.startswith('It waits for "packed:42", in ')
        assert found.sentence.endswith(" at the latest.")
        found = await told(app, child.id, "waits_for_child")
        [called] = (await app.jobs.list(f"flow:{child.id}")).jobs
        assert found.sentence == f"It waits for job #{called.id}."
        assert found.advice.endswith(f"holdfast jobs explain {called.id}")


async def test_a_running_job_says_where_and_a_cancelled_one_that_it_was_asked_to_stop(app: App) -> None:
    release = asyncio.Event()

    @app.job
    async def stubborn(ctx: Context) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    handle = await stubborn.enqueue()
    async with app.worker():
        found = await told(app, handle.id, "running")
        assert f"process {os.getpid()})" in found.sentence
        assert await handle.cancel() == "requested"
        await told(app, handle.id, "cancelling")
        release.set()
        await told(app, handle.id, "ended")


async def test_a_job_of_a_silent_worker_says_that_its_worker_is_lost(app: App, dsn: str) -> None:
    release = asyncio.Event()

    @app.job(queue="mail")
    async def block() -> None:
        await release.wait()

    handle = await block.enqueue()
    # Without a leader the job stays where it is.
    async with app.worker(options=WorkerOptions(queues={"mail": 1}, is_leading_allowed=False)):
        await told(app, handle.id, "running")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "update holdfast.worker set expires_at = now() - interval '1s', lost_at = now()"
            )
        found = await app.jobs.explain(handle.id)
        release.set()
    assert found.reason == "worker_lost"
    assert f"process {os.getpid()}), which has not sent a heartbeat in time." in found.sentence
    assert found.advice.startswith("No worker leads")


async def test_a_passed_deadline_is_told(app: App, work: Job[[int], int]) -> None:
    job = await work.using(deadline="1ms").enqueue(1)
    found = await told(app, job.id, "deadline_passed")
    assert "deadline passed" in found.sentence


async def test_a_job_that_ended_says_how_and_who_holds_its_key(app: App, work: Job[[int], int]) -> None:
    @app.job(queue="mail", retry=Retry(max_attempts=1))
    async def fail() -> None:
        raise KeyError("gone")

    dead = await fail.using(unique="one").enqueue()
    async with app.worker(queues={"mail": 1}):
        found = await told(app, dead.id, "ended")
    assert found.sentence.startswith("It failed ")
    assert "KeyError: 'gone'" in found.sentence
    assert found.advice == f"Run it again with: holdfast jobs retry {dead.id}"
    again = await fail.using(unique="one", delay="1h").enqueue()
    assert (await app.jobs.explain(dead.id)).advice.startswith(f"Job {again.id} holds its unique key now")


async def test_a_job_that_was_stopped_can_run_again_as_a_new_one(app: App, work: Job[[int], int]) -> None:
    job = (await work.using(delay="1h").enqueue(1)).id
    await app.jobs.cancel(job)
    found = await app.jobs.explain(job)
    assert found.advice == f"Run it again, as a new job, with: holdfast jobs rerun {job}"
    assert await app.jobs.retry(job) == {job: "unknown"}


async def test_an_unknown_id_and_a_lost_job(app: App, work: Job[[int], int], dsn: str) -> None:
    assert (await app.jobs.explain(42)).reason == "unknown_id"
    with pytest.raises(InvalidInput):
        await app.jobs.explain("42")  # type: ignore[arg-type]
    job = await work.using(delay="1h").enqueue(1)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("delete from holdfast.scheduled")
    assert (await app.jobs.explain(job.id)).reason == "lost"


async def test_a_job_that_was_set_aside_says_that_it_comes_back(
    app: App, work: Job[[int], int], dsn: str
) -> None:
    """Without a worker for its queue the leader parks it; then such a worker comes, which may not lead."""
    async with App(dsn) as other:

        @other.job(queue="pdf")
        async def render() -> None: ...

        job = await work.enqueue(1)
        # The leader serves another queue, and sets jobs aside that no live worker can take.
        async with other.worker(queues={"pdf": 1}):
            await told(app, job.id, "queue_unserved")
            for segment in range(4):
                await app.run(park(app.schema, segment=segment))
            assert (await app.jobs.show(job)).summary.is_parked
    # Registered, but not there to claim anything; and nobody leads who would put it back.
    await app.run(
        register(app.schema, host="here", pid=1, version="1", queues=["mail"], kinds=["work"], slots=2)
    )
    found = await app.jobs.explain(job)
    assert (found.reason, found.sentence) == ("set_aside", "It was set aside while no worker could take it.")
    async with app.worker(queues={"mail": 1}):
        assert await job.result("60s") == 1


async def test_a_schema_that_is_behind_is_the_answer(app: App, work: Job[[int], int], dsn: str) -> None:
    job = (await work.enqueue(1)).id
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("delete from holdfast.migration where version > 1")
    async with AsyncExitStack() as closing:
        late = App(dsn)
        closing.push_async_callback(late.close)
        found = await late.jobs.explain(job)
        blocking = await asyncio.to_thread(late.jobs.explain_sync, job)
    assert found == blocking
    assert found.reason == "schema_behind"
    assert found.sentence.startswith("The database's schema is at version 1, and this release needs ")
    assert found.advice == "Bring the schema up to date with: holdfast migrate"


def test_every_reason_is_produced_by_a_test() -> None:
    """Most of them here, those of workers that were asked to stop beside what asks them."""
    text = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [reason for reason in get_args(Reason) if f'"{reason}"' not in text] == []


async def test_a_job_that_can_start_is_next_in_line(app: App, work: Job[[int], int]) -> None:
    # Registered, but not there to claim anything.
    await app.run(
        register(app.schema, host="here", pid=1, version="1", queues=["mail"], kinds=["work"], slots=2)
    )
    first, second = await work.enqueue(1), await work.enqueue(2)
    found = await app.jobs.explain(first.id)
    assert (found.reason, found.sentence) == (
        "next_in_line",
        "It is next in line, and 2 of 2 slots are free.",
    )
    found = await app.jobs.explain(second.id)
    assert found.sentence == "1 job is ahead of it, and 2 of 2 slots are free."
