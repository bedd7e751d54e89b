"""What a handler in a child process returns, raises, says and keeps."""

import asyncio
import gc
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.retry import Retry
from holdfast.errors import InvalidInput, ProcessDied
from holdfast.worker.claimed_run import Stop
from holdfast.worker.current_run import current_run
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.handler_requests import Cancel, Fail, RetryLater, Snooze
from holdfast.worker.line_catcher import catcher
from holdfast.worker.processes import Processes
from holdfast.worker.processes.pickled_error import RaisedInChild
from holdfast.worker.run_lines import RunLines
from holdfast.worker.state_and_progress import state_text
from support.waiting import until
from worker import handlers_for_processes as handlers
from worker.handler_runs import Run, children, open_files, run


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    async with Processes() as processes:
        yield processes
    assert children() == []


async def test_a_result_comes_back(processes: Processes) -> None:
    assert await run(processes, handlers.add, left=1, right=2) == 3
    assert await run(processes, handlers.add_later, left=3, right=4) == 7


async def test_arguments_and_results_may_be_of_the_users_own_types(processes: Processes) -> None:
    order = handlers.Order(21, ["tea"])
    assert await run(processes, handlers.double, order=order) == handlers.Order(42, ["tea", "tea"])


async def test_a_function_is_found_behind_what_its_decorator_left(processes: Processes) -> None:
    assert await run(processes, handlers.decorated.function) == "found"


async def test_children_are_other_processes_and_are_used_again(processes: Processes) -> None:
    first, second = await run(processes, handlers.where), await run(processes, handlers.where)
    assert first == second != os.getpid()


async def test_calls_run_at_the_same_time(processes: Processes, tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    async with asyncio.timeout(30):
        met = await asyncio.gather(
            run(processes, handlers.meet, mine=one, other=other),
            run(processes, handlers.meet, mine=other, other=one),
        )
    assert all(met)
    assert len(children()) == 2


async def test_idle_children_end() -> None:
    async with Processes(idle=0.05) as processes:
        first = await run(processes, handlers.where)
        await until(lambda: children() == [])
        assert await run(processes, handlers.where) != first


async def test_an_error_comes_back_with_its_class_its_message_its_cause_and_the_childs_traceback(
    processes: Processes,
) -> None:
    with pytest.raises(handlers.CardRefused) as caught:
        await run(processes, handlers.refuse, customer=42)
    assert (caught.value.customer, caught.value.reason) == (42, "expired")
    stored = from_error(caught.value)
    assert stored.type == "worker.handlers_for_processes.CardRefused"
    assert stored.message == "customer 42: expired"
    assert stored.causes == ("ValueError: invalid literal for int() with base 10: 'no number'",)
    assert stored.traceback is not None
    assert 'raise CardRefused(customer=customer, reason="expired")' in stored.traceback
    assert Retry(on=handlers.CardRefused).is_retryable(caught.value)


async def test_errors_of_the_interpreter_keep_all_their_facts(processes: Processes) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await run(processes, handlers.open_a_missing_file)
    assert caught.value.filename == "/nowhere/to/be/found"
    with pytest.raises(ExceptionGroup) as several:
        await run(processes, handlers.several)
    assert [type(error) for error in several.value.exceptions] == [ValueError, KeyError]


async def test_an_error_loses_only_what_cannot_travel(processes: Processes) -> None:
    with pytest.raises(handlers.HoldsALock, match="no way") as caught:
        await run(processes, handlers.with_a_lock)
    assert not hasattr(caught.value, "lock")


@pytest.mark.parametrize(
    ("function", "type_", "message"),
    [
        (handlers.unspeakable, "worker.handlers_for_processes.Unspeakable", "it holds what cannot travel"),
        (handlers.local_error, "worker.handlers_for_processes.local_error.<locals>.Local", "from inside"),
        (handlers.cancels_itself, "asyncio.exceptions.CancelledError", ""),
        (handlers.error_of_a_library_that_only_the_child_knows, "wave.Error", "no sound"),
    ],
)
async def test_an_error_that_cannot_be_rebuilt_has_a_stand_in_of_the_same_name(
    processes: Processes, function: Callable[..., Any], type_: str, message: str
) -> None:
    with pytest.raises(RaisedInChild) as caught:
        await run(processes, function)
    stored = from_error(caught.value)
    assert (stored.type, stored.message) == (type_, message)
    assert stored.traceback is not None
    assert function.__name__ in stored.traceback
    assert "wave" not in sys.modules
    assert await run(processes, handlers.add, left=1, right=1) == 2


@pytest.mark.parametrize(
    ("function", "flag"),
    [(handlers.unpicklable, "result_unencodable"), (handlers.huge, "result_too_large")],
)
async def test_a_result_that_cannot_travel_is_dropped_and_the_job_is_done(
    processes: Processes, function: Callable[..., Any], flag: str, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = Run.of(function)
    result = await attempt.on(processes)
    assert attempt.claimed.kind.signature.encode_result(result).flag == flag
    assert "its result stays in the child process" in caplog.text
    assert len(children()) == 1


async def test_a_handler_may_ask_by_raising(processes: Processes) -> None:
    with pytest.raises(Snooze) as snoozed:
        await run(processes, handlers.ask, what="snooze")
    assert snoozed.value.delay == timedelta(minutes=5)
    with pytest.raises(RetryLater) as later:
        await run(processes, handlers.ask, what="retry")
    assert (later.value.delay, later.value.reason) == (timedelta(hours=1), "busy")
    with pytest.raises(Cancel, match="sold out"):
        await run(processes, handlers.ask, what="cancel")
    with pytest.raises(Fail, match="no such customer"):
        await run(processes, handlers.ask, what="fail")


async def test_a_handler_knows_its_run(processes: Processes) -> None:
    attempt = Run.of(handlers.facts)
    assert await attempt.on(processes) == {
        "job": attempt.context.job,
        "attempt": 2,
        "token": attempt.context.fencing_token,
    }


async def test_state_is_kept_for_the_next_attempt_whether_it_returned_or_raised(processes: Processes) -> None:
    attempt = Run.of(handlers.count_up, state='{"count": 1, "who": "me"}')
    with pytest.raises(ValueError, match="not yet"):
        await attempt.on(processes)
    assert attempt.context.state == {"count": 2, "who": "me"}
    attempt = Run.of(handlers.count_up, state=state_text(attempt.claimed.state))
    assert await attempt.on(processes) == 3
    assert attempt.context.state["count"] == 3


@pytest.mark.parametrize(
    ("size", "says"), [(None, "not JSON serializable"), (1024 * 1024, "takes 1,048,587 bytes, the limit is")]
)
async def test_state_that_cannot_be_kept_is_an_error_as_it_is_in_the_worker(
    processes: Processes, size: int | None, says: str
) -> None:
    attempt = Run.of(handlers.unstorable_state, state='{"old": 1}')
    with pytest.raises(InvalidInput, match=rf"ctx\.state cannot be kept: .*{says}"):
        await attempt.on(processes, size=size)
    assert state_text(attempt.claimed.state) is None
    assert attempt.context.state == {"old": 1}


async def test_state_that_cannot_be_kept_hides_no_error_of_the_handlers(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = Run.of(handlers.unstorable_state, state='{"old": 1}')
    with pytest.raises(ValueError, match="no such order"):
        await attempt.on(processes, size=None, error="no such order")
    assert attempt.context.state == {"old": 1}
    assert "ctx.state was not stored" in caplog.text


@pytest.mark.parametrize("function", [handlers.around_a_generator, handlers.around_an_async_generator])
async def test_a_function_that_returns_what_has_not_run_has_failed(
    processes: Processes, function: Callable[..., Any]
) -> None:
    with pytest.raises(TypeError, match=r"of which nothing has run: a job returns, or is awaited"):
        await run(processes, function)


async def test_state_that_was_not_touched_is_not_written(processes: Processes) -> None:
    attempt = Run.of(handlers.facts, state='{"old": 1}')
    await attempt.on(processes)
    assert state_text(attempt.claimed.state) is None


async def test_progress_arrives_the_last_word_always_without_flooding_the_worker(
    processes: Processes,
) -> None:
    attempt = Run.of(handlers.say_progress)
    await attempt.on(processes, times=10_000)
    assert attempt.said[0] == {"value": 0.0001, "note": "1 of 10000", "row": 1}
    assert attempt.said[-1] == {"value": 1.0, "note": "10000 of 10000", "row": 10_000}
    assert len(attempt.said) < 1_000


async def test_a_thread_that_was_left_behind_does_not_speak_for_the_next_run(
    processes: Processes, tmp_path: Path
) -> None:
    before = Run.of(handlers.leave_a_thread_behind)
    await before.on(processes, late=str(tmp_path / "late"))
    after = Run.of(handlers.wait_for)
    await after.on(processes, place=str(tmp_path / "late"))
    assert before.said == after.said == []


async def test_a_line_of_a_thread_that_a_run_left_behind_is_not_that_of_the_next(
    processes: Processes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await Run.of(handlers.leave_a_thread_behind).on(processes, late=str(tmp_path / "late"))
    after = Run.of(handlers.wait_for)
    after.claimed.lines = RunLines()
    current_run.set(after.claimed)
    with catcher.at_work():
        await after.on(processes, place=str(tmp_path / "late"))
    assert "late" in caplog.messages
    assert after.claimed.lines.take() is None


async def test_log_records_are_written_by_the_worker(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    attempt = Run.of(handlers.log_something)
    await attempt.on(processes)
    hello, bad = [record for record in caplog.records if record.name in ("holdfast.job.kind", "shop")]
    assert (hello.name, hello.getMessage()) == ("holdfast.job.kind", "hello from afar")
    assert vars(hello)["run"] == vars(bad)["run"] == attempt.claimed.run
    assert (bad.levelno, bad.name) == (logging.ERROR, "shop")
    assert "ValueError: invalid literal" in bad.getMessage()


async def test_log_records_arrive_in_order_and_before_the_end_of_their_run(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    runs = [Run.of(handlers.log_lines) for _ in range(3)]
    for attempt in runs:
        await attempt.on(processes, number=200)
        said = [each for each in caplog.records if vars(each).get("run") == attempt.claimed.run]
        assert [each.getMessage() for each in said] == [f"line {line}" for line in range(200)]


async def test_what_is_printed_goes_where_the_workers_goes(
    processes: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    await run(processes, handlers.write_to_stdout, text="unended line")
    assert capfd.readouterr().out == "unended line"


async def test_a_transaction_is_refused_with_what_to_do(processes: Processes) -> None:
    with pytest.raises(InvalidInput, match='leave out isolate="process"'):
        await run(processes, handlers.use_a_transaction)


async def test_a_function_that_a_child_cannot_find_is_refused(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def local() -> None: ...

    with pytest.raises(InvalidInput, match="at the top of a module"):
        await run(processes, local)
    with pytest.raises(InvalidInput, match="at the top of a module"):
        await run(processes, lambda: None)
    shadowed = handlers.where
    monkeypatch.setattr(handlers, "where", handlers.crash)
    with pytest.raises(InvalidInput, match="the wrong one"):
        await run(processes, shadowed)
    assert children() == []


async def test_arguments_that_cannot_be_pickled_are_refused(processes: Processes) -> None:
    with pytest.raises(InvalidInput, match="cannot be pickled"):
        await run(processes, handlers.add, left=threading.Lock(), right=1)


async def test_the_blocks_own_error_is_not_wrapped() -> None:
    async def fail() -> None:
        async with Processes() as processes:
            await run(processes, handlers.where)
            raise KeyError

    with pytest.raises(KeyError):
        await fail()


def test_children_are_kept_under_uvloop_as_well(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def call_and_stop() -> None:
        place = tmp_path / "started"
        async with Processes(grace=0) as processes:
            assert await run(processes, handlers.add, left=1, right=2) == 3
            attempt = Run.of(handlers.ignore_signals)
            task = attempt.begin(processes, started=str(place))
            await until(place.exists)
            attempt.tell_to_stop(Stop.TIMEOUT)
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(ProcessDied, match="exited with 3"):
                await run(processes, handlers.leave, code=3)
        assert children() == []

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(call_and_stop())


async def test_many_calls_and_many_children_leak_no_files_and_no_zombies() -> None:
    async with Processes() as processes:
        await run(processes, handlers.where)
    gc.collect()  # what others have left behind must not go while we count
    before = open_files()
    async with Processes() as processes:
        for _ in range(10):
            await asyncio.gather(*(run(processes, handlers.add, left=n, right=n) for n in range(3)))
        one = open_files()
        for _ in range(170):
            await run(processes, handlers.where)
        assert open_files() == one
    assert children() == []
    assert open_files() == before
