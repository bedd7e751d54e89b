"""Takes the steps of something that goes on for longer than a transaction: conversations, each held by
itself, and waits between them. Written once, for a caller that awaits and for one that blocks.
"""

import asyncio
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.postgres.conversation import Conversation, Holder, hold, hold_blocking

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Wait:
    """A step that only takes time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Look:
    """A step that only reads, for an operator: apart from what enqueues, and within a bound of time."""

    conversation: Conversation[Any]


Step = Conversation[Any] | Look | Wait
Steps = Generator[Step, Any, R]


async def take(holder: Holder, steps: Steps[R], conn: object = None) -> R:
    """With `conn`, all of them are part of the caller's transaction."""

    async def one(step: Step) -> Any:
        if isinstance(step, Wait):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Look):
            return await holder.look(step.conversation, conn)
        return await holder.hold(step, conn)

    return await hold(steps, one)


def take_blocking(holder: Holder, steps: Steps[R], conn: object = None) -> R:
    def one(step: Step) -> Any:
        if isinstance(step, Wait):
            return time.sleep(step.seconds)
        if isinstance(step, Look):
            return holder.look_sync(step.conversation, conn)
        return holder.hold_sync(step, conn)

    return hold_blocking(steps, one)
