"""Branches of a flow that are stopped before they begin."""

import asyncio
import inspect
from typing import Any

from holdfast.flows.branches import Branches
from holdfast.storage.flows import Wait


async def test_branches_that_are_stopped_before_they_began_leave_nothing_that_python_warns_of() -> None:
    async def never(waits: list[Wait]) -> Any:
        raise AssertionError(f"no branch asked for {waits}")

    async def branch() -> None:
        raise AssertionError("it was stopped before")

    given = [branch(), branch()]
    running = asyncio.create_task(Branches(never, is_eager=False).run(given, [None, None]))
    others = asyncio.all_tasks()
    await asyncio.sleep(0)  # now they are tasks whose turn has not come
    for task in {running, *asyncio.all_tasks() - others}:
        task.cancel()  # all at once, as when an event loop is left
    await asyncio.wait([running])
    assert [inspect.getcoroutinestate(each) for each in given] == [inspect.CORO_CLOSED] * 2
