"""How every test waits for what sets no event (a process, a file, the database): it asks again and again,
within a bound, and says what never came true.
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

What = str | Callable[[], object]

_PAUSE = 0.01


async def until(is_so: Callable[[], Any], what: What = "it is so", *, within: float = 30) -> Any:
    """Ask until the answer is true, and return it. `is_so` may be a coroutine function; `what` may be a
    function that tells, after the last look, what was found instead.
    """
    deadline = time.monotonic() + within
    while not (answer := await _answer(is_so)):
        _check(deadline, what, within)
        await asyncio.sleep(_PAUSE)
    return answer


def block_until(is_so: Callable[[], Any], what: What = "it is so", *, within: float = 60) -> Any:
    """The same without an event loop."""
    deadline = time.monotonic() + within
    while not (answer := is_so()):
        _check(deadline, what, within)
        time.sleep(_PAUSE)
    return answer


async def _answer(is_so: Callable[[], Any]) -> Any:
    answer = is_so()
    return await answer if inspect.isawaitable(answer) else answer


def _check(deadline: float, what: What, within: float) -> None:
    if time.monotonic() >= deadline:
        raise AssertionError(f"not within {within:g} s: {what if isinstance(what, str) else what()}")
