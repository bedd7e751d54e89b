"""How a handle waits for an end: for how long, how often it looks, and where it must not block."""

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

from holdfast.domain.duration import duration
from holdfast.errors import InvalidInput


def refuse_on_a_loop(verb: str = "result_sync", instead: str = "await handle.result()") -> None:
    with suppress(RuntimeError):  # there is none in this thread
        asyncio.get_running_loop()
        raise InvalidInput(
            f"{verb}() would stop the event loop of this thread, and with it every job that it runs: "
            f"use {instead}"
        )


def limit_of(timeout: str | timedelta | None) -> timedelta | None:
    return None if timeout is None else duration(timeout, name="timeout")


def waits(limit: timedelta | None) -> Iterator[float]:
    """Growing waits: the end of a short job is seen soon, and a job of hours is not polled all day. One more
    look when time is up: a timeout of zero returns a result that is there already. No end without a limit.
    """
    began = time.monotonic()
    left, wait = math.inf, 0.005
    while left > 0:
        if limit is not None:
            left = limit.total_seconds() - (time.monotonic() - began)
        yield max(min(wait, left), 0)
        wait = min(wait * 1.5, 0.5)
