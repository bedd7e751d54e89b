"""Plain functions in threads: those that block run side by side, and their ends come to the event loop in
bursts.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from holdfast.worker.callers import Threads
from holdfast.worker.claimed_run import Stop
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.thread_call import ThreadAnswers, ThreadCall
from support.waiting import block_until, until
from worker.handler_runs import Run

SLOTS = 20


@pytest.fixture
async def job_threads() -> AsyncIterator[JobThreads]:
    threads = JobThreads(SLOTS)
    yield threads
    threads.close()
    await until(lambda: threads.count == 0, lambda: f"{threads.count} threads are left")


@pytest.fixture
async def threads(job_threads: JobThreads) -> Threads:
    return Threads(job_threads)


def called(threads: Threads, function: Callable[..., Any]) -> tuple[Run, "asyncio.Task[Any]"]:
    run = Run.of(function)
    run.claimed.task = asyncio.create_task(threads.call(run.claimed, run.context, {}))
    return run, run.claimed.task


async def ends(*tasks: "asyncio.Task[Any]") -> list[Any]:
    async with asyncio.timeout(30):
        return await asyncio.gather(*tasks)


@pytest.fixture(params=["long calls", "short calls"])
def usual(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is known of the calls before: whether others may wait for them."""
    if request.param == "short calls":
        monkeypatch.setattr("holdfast.worker.job_threads._SHORT_SECONDS", 60)
    return str(request.param)


async def test_while_calls_are_short_as_many_wait_as_run_until_they_have_waited_too_long(
    monkeypatch: pytest.MonkeyPatch, job_threads: JobThreads
) -> None:
    monkeypatch.setattr("holdfast.worker.job_threads._SHORT_SECONDS", 60)
    begun: list[int] = []
    go = threading.Event()

    def hold() -> bool:
        begun.append(1)
        return go.wait(20)

    loop = asyncio.get_running_loop()
    job_threads.answer_to(ThreadAnswers())
    calls = [ThreadCall(hold, loop.create_future()) for _ in range(SLOTS)]
    for call in calls:
        job_threads.begin(call)
    await until(lambda: len(begun) == SLOTS // 2)
    assert job_threads.count == SLOTS // 2
    assert job_threads.look_in(), "they may wait a little"
    assert job_threads.count == SLOTS // 2
    assert job_threads.look_in(), "none of them has begun since"
    await until(lambda: len(begun) == SLOTS)
    assert not job_threads.look_in()
    go.set()
    assert await asyncio.wait_for(asyncio.gather(*(call.answer for call in calls if call.answer)), 30)


@pytest.mark.usefixtures("usual")
@pytest.mark.parametrize("quick", [0, 7])
async def test_functions_that_block_run_side_by_side_in_as_many_threads_as_there_are_slots(
    threads: Threads, quick: int
) -> None:
    """Whatever came before them in the same burst."""
    together = threading.Barrier(SLOTS, timeout=20)

    def meet() -> bool:
        return together.wait() >= 0

    for _ in range(3):
        tasks = [called(threads, lambda: True)[1] for _ in range(quick)]
        tasks += [called(threads, meet)[1] for _ in range(SLOTS)]
        assert all(await ends(*tasks))


async def test_functions_that_block_are_joined_by_those_that_come_later(threads: Threads) -> None:
    together = threading.Barrier(SLOTS, timeout=20)
    begun: list[int] = []

    def meet(number: int) -> int:
        begun.append(number)
        return together.wait()

    tasks = []
    for number in range(SLOTS):
        tasks.append(called(threads, partial(meet, number))[1])
        await until(lambda number=number: len(begun) == number + 1)  # type: ignore[misc]
    await ends(*tasks)


def thread() -> int:
    return threading.get_ident()


async def test_functions_that_return_at_once_share_a_few_threads(threads: Threads) -> None:
    idents = await ends(*(called(threads, thread)[1] for _ in range(200)))
    assert len(set(idents)) < SLOTS


@pytest.mark.usefixtures("usual")
@pytest.mark.parametrize("behind", [0, 1, 5])
@pytest.mark.parametrize("limit", [1, 2, SLOTS])
async def test_an_end_does_not_wait_for_the_function_that_its_thread_runs_next(
    limit: int, behind: int
) -> None:
    """Whether the thread took the last call that waited, or others are behind it, for which there may be no
    thread.
    """
    job_threads = JobThreads(limit)
    threads, go = Threads(job_threads), threading.Event()
    first = [called(threads, lambda: "quick")[1] for _ in range(3)]
    blocked = [called(threads, lambda: go.wait(20))[1] for _ in range(1 + behind)]
    assert await ends(*first) == ["quick"] * 3
    assert not any(task.done() for task in blocked)
    go.set()
    assert await ends(*blocked) == [True] * (1 + behind)
    job_threads.close()
    await until(lambda: job_threads.count == 0)


async def test_an_end_that_a_thread_kept_to_itself_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took the next call, for which others may wait, and that one blocks."""
    monkeypatch.setattr("holdfast.worker.job_threads._SHORT_SECONDS", 60)
    job_threads = JobThreads(1)
    threads, first_may_end, go = Threads(job_threads), threading.Event(), threading.Event()
    _, first = called(threads, lambda: first_may_end.wait(20))
    blocked = [called(threads, lambda: go.wait(20))[1] for _ in range(2)]
    await until(lambda: len(job_threads._waiting) == 2)
    first_may_end.set()
    async with asyncio.timeout(10):
        assert await first
    assert not any(task.done() for task in blocked)
    go.set()
    assert await ends(*blocked) == [True, True]
    job_threads.close()
    await until(lambda: job_threads.count == 0)


async def test_many_ends_wake_the_event_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    wake_ups: list[object] = []
    threadsafe = loop.call_soon_threadsafe

    def counted(*args: Any) -> Any:
        wake_ups.append(args)
        return threadsafe(*args)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    answers = ThreadAnswers()
    calls = [ThreadCall(lambda: None, loop.create_future()) for _ in range(20)]
    for number, call in enumerate(calls):
        call.end(number, None)
        answers.put(call)
    assert wake_ups == []
    answers.tell()
    answers.tell()
    assert len(wake_ups) == 1
    assert await asyncio.gather(*(call.answer for call in calls if call.answer)) == list(range(20))
    answers.tell()
    assert len(wake_ups) == 1, "there is nothing to tell"


async def test_a_call_that_is_cancelled_before_it_began_never_begins() -> None:
    only = JobThreads(1)
    threads, go, begun = Threads(only), threading.Event(), []
    _, busy = called(threads, lambda: go.wait(20))
    run, waiting = called(threads, lambda: begun.append(1))
    await asyncio.sleep(0)
    run.tell_to_stop(Stop.CANCEL)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert threads.left_behind(run.claimed) is None
    go.set()
    assert await ends(busy) == [True]
    only.close()
    block_until(lambda: only.count == 0)
    assert begun == []


@pytest.mark.parametrize("is_over", [False, True])
async def test_a_call_that_is_cut_short_leaves_its_thread_behind_until_it_ends(
    threads: Threads, *, is_over: bool
) -> None:
    running, go = threading.Event(), threading.Event()

    def stubborn() -> str:
        running.set()
        go.wait(20)
        return "done"

    run, task = called(threads, stubborn)
    await until(running.is_set)
    if is_over:
        go.set()
        block_until(lambda: threads._calls[run.claimed.run].is_over)
    run.tell_to_stop(Stop.CANCEL)
    with pytest.raises(asyncio.CancelledError):
        await task
    thread = threads.left_behind(run.claimed)
    assert thread is not None
    assert thread.done() == is_over
    go.set()
    assert thread.result(20) == "done"
    assert threads.left_behind(run.claimed) is None


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(3), SystemExit(4), KeyboardInterrupt()])
async def test_whatever_a_function_raises_comes_to_its_task_and_the_thread_goes_on(
    threads: Threads, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    run = Run.of(fail)
    with pytest.raises((type(error), RuntimeError)) as raised:
        await threads.call(run.claimed, run.context, {})
    assert error in (raised.value, raised.value.__cause__)
    assert threads.left_behind(run.claimed) is None
    assert await ends(called(threads, lambda: 7)[1]) == [7]
