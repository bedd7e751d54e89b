"""Batcher: a lone item at once, items that come meanwhile together, and no item harms another."""

import asyncio
from collections.abc import Callable
from itertools import chain

import pytest

from holdfast.errors import ConnectionLost, StatementFailed
from holdfast.postgres.batcher import BATCH, Batcher


class Server:
    """Records the batches that it is sent; answers when it is let go, and refuses batches with "bad"."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.go = asyncio.Event()

    async def write(self, items: list[str]) -> list[str]:
        self.batches.append(items)
        await self.go.wait()
        if "cut" in items:
            raise ConnectionLost("cut")
        if "bad" in items:
            raise StatementFailed("bad")
        return [item.upper() for item in items]


async def put(batcher: Batcher[str, str], *items: str) -> list["asyncio.Task[str]"]:
    tasks = [asyncio.create_task(batcher.put(item)) for item in items]
    await asyncio.sleep(0)
    return tasks


async def test_items_that_come_while_one_is_written_share_the_next_batch() -> None:
    server = Server()
    tasks = await put(Batcher(server.write), "a", "b", "c")
    assert server.batches == [["a"]]
    server.go.set()
    assert await asyncio.gather(*tasks) == ["A", "B", "C"]
    assert server.batches == [["a"], ["b", "c"]]


async def test_as_many_batches_are_under_way_as_allowed() -> None:
    server = Server()
    tasks = await put(Batcher(server.write, at_once=2), "a", "b", "c", "d")
    assert server.batches == [["a"], ["b"]]
    server.go.set()
    assert await asyncio.gather(*tasks) == ["A", "B", "C", "D"]
    assert server.batches[2:] == [["c", "d"]]


@pytest.mark.parametrize(
    ("batcher", "count", "sizes"),
    [
        (lambda write: Batcher(write, fitting=lambda _: 2), 4, [1, 2, 1]),
        (Batcher, BATCH + 3, [1, BATCH, 2]),
    ],
)
async def test_a_batch_holds_as_many_as_fit(
    batcher: Callable[..., Batcher[str, str]], count: int, sizes: list[int]
) -> None:
    server = Server()
    tasks = await put(batcher(server.write), *["x"] * count)
    server.go.set()
    await asyncio.gather(*tasks)
    assert [len(batch) for batch in server.batches] == sizes


async def test_an_item_that_postgres_refuses_harms_no_other_of_its_batch() -> None:
    server = Server()
    tasks = await put(Batcher(server.write), "a", "b", "bad", "c")
    server.go.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [answers[0], answers[1], answers[3]] == ["A", "B", "C"]
    assert isinstance(answers[2], StatementFailed)


async def test_an_outage_is_told_to_each_caller_of_the_batch_and_ends_with_it() -> None:
    server = Server()
    batcher = Batcher(server.write)
    tasks = await put(batcher, "a", "b", "cut")
    server.go.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[0] == "A"
    assert [type(answer) for answer in answers[1:]] == [ConnectionLost, ConnectionLost]
    assert await batcher.put("d") == "D"


async def test_an_item_whose_caller_was_cancelled_before_its_batch_was_sent_is_not_written() -> None:
    server = Server()
    tasks = await put(Batcher(server.write), "a", "b", "c")
    tasks[1].cancel()
    server.go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert server.batches == [["a"], ["c"]]


async def test_finishing_waits_for_every_item() -> None:
    server = Server()
    batcher = Batcher(server.write, at_once=2)
    tasks = await put(batcher, *"abcde")
    finishing = asyncio.create_task(batcher.finish())
    await asyncio.sleep(0)
    assert not finishing.done()
    server.go.set()
    await asyncio.wait_for(finishing, 30)
    assert sorted(chain(*server.batches)) == sorted("abcde")
    await asyncio.gather(*tasks)


async def test_items_that_will_never_be_written_are_cancelled_with_the_task_that_would_have() -> None:
    server = Server()
    batcher = Batcher(server.write)
    first, *others = await put(batcher, "a", "b", "c")
    first.cancel()
    await asyncio.wait([first], timeout=30)
    [writing] = batcher._tasks
    await asyncio.sleep(0)
    assert server.batches == [["a"], ["b", "c"]]
    writing.cancel()
    await asyncio.wait_for(asyncio.wait(others), 30)
    assert [task.cancelled() for task in others] == [True, True]
    await asyncio.wait_for(batcher.finish(), 30)
