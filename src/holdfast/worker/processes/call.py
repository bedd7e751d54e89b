"""One call of a handler in a child process, as the worker sees it."""

import asyncio
import contextvars
from collections.abc import Callable
from time import monotonic
from typing import Any

from holdfast.worker.claimed_run import Stop
from holdfast.worker.processes.call_queue import is_whole, packet_of
from holdfast.worker.processes.child_process import ChildAnswer, ChildProcess, relog


class Call:
    """`answer` always gets one: from the child that takes the call, or from its death."""

    __slots__ = (
        "answer",
        "body",
        "child",
        "context",
        "has_begun",
        "is_condemned",
        "number",
        "on_begun",
        "on_progress",
        "on_slow",
        "packet",
        "run",
        "since",
        "stop",
    )

    def __init__(  # noqa: PLR0917  # made for every job, where keywords cost
        self,
        number: int,
        run: int,
        body: bytes,
        answer: "asyncio.Future[ChildAnswer]",
        on_begun: Callable[[], None],
        on_progress: Callable[[str], None],
        on_slow: Callable[[], None] | None,
    ) -> None:
        self.number = number
        self.run = run
        # In which the call was made: what it logs is logged there.
        self.context = contextvars.copy_context()
        self.packet = packet_of(number, body)
        # Kept if the packet has no room for it.
        self.body = None if is_whole(self.packet) else body
        self.answer = answer
        self.on_begun = on_begun
        self.on_progress = on_progress
        # Called once, if no child has begun it for long.
        self.on_slow = on_slow
        self.since = monotonic()
        self.child: ChildProcess | None = None
        self.has_begun = False
        self.stop: Stop | None = None
        self.is_condemned = False

    def taken_by(self, child: ChildProcess) -> None:
        """What was asked for before is done now."""
        self.child = child
        if self.is_condemned:
            child.kill()
            return
        if self.body is not None:
            child.send_body(self.body)
        if self.stop is not None:
            child.tell_to_stop(self.number, self.stop)

    def relog(self, record: dict[str, Any]) -> None:
        self.context.run(relog, record)

    def begin(self) -> None:
        self.has_begun = True
        self.on_begun()

    def tell_to_stop(self, reason: Stop) -> None:
        self.stop = reason
        if self.child is not None:
            self.child.tell_to_stop(self.number, reason)

    def kill(self) -> None:
        self.is_condemned = True
        if self.child is not None:
            self.child.kill()

    def await_again(self) -> "asyncio.Future[ChildAnswer]":
        """For a caller whose wait was cancelled, and with it the future that it waited for."""
        if self.answer.cancelled():
            self.answer = self.answer.get_loop().create_future()
        return self.answer

    def give(self, answer: ChildAnswer) -> None:
        future = self.await_again()
        if not future.done():
            future.set_result(answer)
