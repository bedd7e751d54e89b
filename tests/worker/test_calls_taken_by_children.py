"""Child processes take their calls themselves from a queue in the kernel. No call is lost with a child that
dies, and none runs twice.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import pytest

from holdfast.errors import ProcessDied
from holdfast.worker.claimed_run import Stop
from holdfast.worker.handler_requests import EndWith
from holdfast.worker.processes import Processes
from holdfast.worker.processes.call import Call
from holdfast.worker.processes.call_queue import (
    LARGEST_PACKET,
    CallQueue,
    CallTaker,
    number_of,
    packet_of,
)
from holdfast.worker.processes.crew import Crew
from holdfast.worker.processes.messages import Ended, Taken
from holdfast.worker.processes.places import Places
from support.waiting import until
from worker import handlers_for_processes as handlers
from worker.handler_runs import Run, children, numbers_in, run


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    async with Processes(Places(2), patience=30) as processes:
        yield processes
    assert children() == []


def taken_from(queue: CallQueue) -> CallTaker:
    return CallTaker(os.dup(queue.fileno()))


def new_call(number: int) -> Call:
    return Call(
        number,
        number,
        b"",
        asyncio.get_running_loop().create_future(),
        lambda: None,
        lambda _: None,
        None,
    )


@pytest.fixture
async def crew() -> AsyncIterator[Crew]:
    """Its children are never started: the test says what they do."""
    crew = Crew(None, lambda: None)
    yield crew
    crew.close()


def test_a_queue_keeps_its_order_however_full_it_is() -> None:
    queue = CallQueue()
    taker = taken_from(queue)
    for number in range(1, 5_001):
        queue.put(packet_of(number))
    found = []
    for _ in range(5_000):
        taken = taker.take(is_patient=False)
        assert taken is not None
        found.append(taken[0])
        queue.go_on()
    assert found == list(range(1, 5_001))
    assert taker.take(is_patient=False) is None
    queue.close()
    taker.close()


def test_what_is_taken_back_is_all_that_nobody_has_taken() -> None:
    queue = CallQueue()
    taker = taken_from(queue)
    for number in range(1, 2_001):
        queue.put(packet_of(number))
    assert taker.take(is_patient=True) == (1, None)
    assert [number_of(packet) for packet in queue.take_back()] == list(range(2, 2_001))
    assert taker.take(is_patient=False) is None
    queue.close()
    taker.close()


async def test_calls_of_any_size_reach_a_child(processes: Processes) -> None:
    for size in (0, LARGEST_PACKET - 200, LARGEST_PACKET, LARGEST_PACKET + 200, 3_000_000):
        assert await run(processes, handlers.add, left="a" * size, right="b") == "a" * size + "b"


async def test_many_calls_are_each_run_once_and_get_their_own_answers(processes: Processes) -> None:
    answers = await asyncio.gather(*(run(processes, handlers.add, left=n, right=n) for n in range(2_000)))
    assert answers == [2 * n for n in range(2_000)]
    assert 1 <= len(children()) <= 2


async def test_calls_in_the_queue_outlive_every_child(processes: Processes, tmp_path: Path) -> None:
    """Each child is killed while it runs a call, again and again, and no other call pays for it."""
    places = [tmp_path / f"started-{number}" for number in range(6)]
    held = [
        Run.of(handlers.hold).begin(processes, started=str(place), until=f"{place}.never") for place in places
    ]
    others = [asyncio.create_task(run(processes, handlers.add, left=n, right=1)) for n in range(50)]
    for place in places:
        [pid] = await numbers_in(place)
        os.kill(pid, signal.SIGKILL)
    for task in held:
        with pytest.raises(ProcessDied):
            await task
    assert [await task for task in others] == [n + 1 for n in range(50)]


async def test_a_call_that_kills_its_child_takes_no_answer_along(processes: Processes) -> None:
    """Those that ended right before are told before it begins."""
    for _ in range(5):
        calls = [run(processes, handlers.add, left=n, right=n) for n in range(20)]
        crashes = [run(processes, handlers.crash) for _ in range(2)]
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*calls, *crashes, return_exceptions=True)
        assert answers[:20] == [2 * n for n in range(20)]
        assert [type(each) for each in answers[20:]] == [ProcessDied, ProcessDied]


async def test_a_call_that_a_child_took_and_never_told_of_goes_to_another(crew: Crew) -> None:
    """The child dies between taking it and saying so."""
    dying, other = crew.new_child(), crew.new_child()
    lost, kept = new_call(1), new_call(2)
    crew.put(lost)
    crew.put(kept)
    taker = taken_from(crew.queue)
    assert taker.take(is_patient=False) == (1, None)
    dying.taken = 5
    crew.gone(dying)
    assert taker.take(is_patient=False) == (2, None), "the other child may still say that it has the first"
    crew.hear(other, Taken(2, is_begun=True))
    assert taker.take(is_patient=False) == (1, None), "it has the second, so nobody has the first"
    assert not lost.answer.done()
    taker.close()


async def test_a_call_that_its_child_took_and_did_not_begin_costs_nothing(crew: Crew) -> None:
    """Unless it was the first of that child: then it may be the reason."""
    for number, before in ((1, 4), (2, 0)):
        child, call = crew.new_child(), new_call(number)
        child.taken = before
        crew.put(call)
        taker = taken_from(crew.queue)
        taker.take(is_patient=False)
        crew.hear(child, Taken(number, is_begun=False))
        crew.gone(child)
        assert taker.take(is_patient=False) == ((number, None) if before else None)
        assert call.answer.done() is (not before)
        taker.close()
        if before:
            assert crew.queue.take_back() == []
            crew.hear(crew.new_child(), Taken(number, is_begun=False))


async def test_a_call_that_its_child_tells_of_late_is_not_given_to_another(crew: Crew) -> None:
    dying, other = crew.new_child(), crew.new_child()
    call = new_call(1)
    crew.put(call)
    taker = taken_from(crew.queue)
    assert taker.take(is_patient=False) == (1, None)
    dying.taken = 5
    crew.gone(dying)
    crew.hear(other, Taken(1, is_begun=True))
    assert taker.take(is_patient=False) is None
    assert call.has_begun
    crew.hear(other, Ended(1))
    assert call.answer.result() == Ended(1)
    taker.close()


async def test_a_child_that_is_frozen_with_a_call_it_never_told_of_is_killed_before_another_gets_it(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.processes.crew._WORD_SECONDS", 0.01)
    dying, frozen = crew.new_child(), crew.new_child()
    crew.put(new_call(1))
    taker = taken_from(crew.queue)
    taker.take(is_patient=False)
    dying.taken = frozen.taken = 5
    crew.gone(dying)
    await until(lambda: frozen.was_killed)
    assert taker.take(is_patient=False) is None
    crew.gone(frozen)
    assert taker.take(is_patient=False) == (1, None)
    taker.close()


async def test_a_call_is_withdrawn_from_the_queue_or_stopped_by_the_child_that_has_it(crew: Crew) -> None:
    child = crew.new_child()
    calls = [new_call(number) for number in (1, 2, 3)]
    for call in calls:
        crew.put(call)
    taker = taken_from(crew.queue)
    assert taker.take(is_patient=False) == (1, None)
    calls[0].tell_to_stop(Stop.LOST)
    assert not crew.withdraw(calls[0]), "a child has it"
    calls[0].kill()
    assert crew.withdraw(calls[1])
    assert taker.take(is_patient=False) == (3, None)
    crew.hear(child, Taken(1, is_begun=False))
    assert child.was_killed
    taker.close()


async def test_a_stopped_call_that_nobody_has_is_answered(crew: Crew) -> None:
    child = crew.new_child()
    call = new_call(1)
    crew.put(call)
    taker = taken_from(crew.queue)
    taker.take(is_patient=False)
    call.stop = Stop.CANCEL
    assert not crew.withdraw(call)
    child.taken = 5
    crew.gone(child)
    assert await call.answer == Ended(1, is_too_late=True)
    taker.close()


async def test_calls_that_wait_too_long_are_given_back_except_those_that_free_children_will_take(
    crew: Crew,
) -> None:
    crew.new_child()
    calls = [new_call(number) for number in (1, 2, 3)]
    for call in calls:
        crew.put(call)
    calls[2].since = monotonic() + 60
    assert crew.release_late(monotonic())
    assert [call.answer.done() for call in calls] == [False, True, False]
    assert isinstance(calls[1].answer.result(), EndWith)
    taker = taken_from(crew.queue)
    assert [taker.take(is_patient=False) for _ in range(3)] == [(1, None), (3, None), None]
    taker.close()


async def test_a_child_that_is_to_leave_takes_no_further_call(tmp_path: Path) -> None:
    async with Processes(Places(2), idle=0.2, patience=30) as processes:
        for round_ in range(4):
            places = [tmp_path / f"{round_}-{number}" for number in range(2)]
            first = [
                Run.of(handlers.meet).begin(processes, mine=str(mine), other=str(other))
                for mine, other in (places, reversed(places))
            ]
            assert all(await asyncio.gather(*first))
            await until(lambda: len(children()) < 2)
