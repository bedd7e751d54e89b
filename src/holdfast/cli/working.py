"""One worker in this process: its event loop, its signals, and its end, which always comes."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any

from holdfast.app import App
from holdfast.cli.supervised import FINISHED, HURRY, STARTED, Supervised
from holdfast.domain.duration import compact
from holdfast.errors import DatabaseError
from holdfast.postgres.failure_log import FailureLog
from holdfast.storage.idleness import is_idle
from holdfast.telemetry.log import say
from holdfast.worker.lease_keeper import Beats
from holdfast.worker.options import WorkerOptions
from holdfast.worker.queue_choice import slots_for
from holdfast.worker.stopping import Stopping
from holdfast.worker.worker import Worker

_log = logging.getLogger("holdfast.worker")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LOOK_SECONDS = 0.1
_BEATS_IN_A_LEASE = 6
# A thread that runs a plain function cannot be stopped, and Python waits for it before it ends.
_PARTING_SECONDS = 5.0
_HURRIED_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line asks of a worker; no queues: those of the app's own jobs. A queue without a
    number has the slots that are set for it.
    """

    queues: Mapping[str, int | None] | None
    slots: Mapping[str, int] | None = None
    grace: timedelta
    lease: timedelta
    once: bool
    children: int | None = None

    def options(self, app: App) -> WorkerOptions:
        slots = {**app.slots, **(self.slots or {})}
        asked = {name: number for name, number in (self.queues or {}).items() if number is not None}
        standard = WorkerOptions()
        return WorkerOptions(
            queues=slots_for(self.queues or app.own_queues, slots | asked) or standard.queues,
            grace=self.grace,
            beats=Beats(self.lease, self.lease / _BEATS_IN_A_LEASE),
            leader_lease=min(standard.leader_lease, self.lease),
            children=self.children,
        )


def work(app: App, wishes: Wishes, supervised: Supervised | None) -> None:
    """Until a signal, the supervisor or, if that is wished, the lack of jobs ends it."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_work(app, wishes, supervised))


async def _work(app: App, wishes: Wishes, supervised: Supervised | None) -> None:
    options = wishes.options(app)
    # Not `async with app:`, which would open connections that a worker has no use for.
    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.close)
        worker = await app._worker(None, wishes.grace, options, slots=wishes.slots)  # noqa: SLF001  # its face
        with Ending(worker.stopping, wishes.grace, supervised):
            watching = asyncio.create_task(_watch(app, worker, options, wishes, supervised))
            try:
                await worker.run()
            finally:
                watching.cancel()


async def _watch(
    app: App, worker: Worker, options: WorkerOptions, wishes: Wishes, supervised: Supervised | None
) -> None:
    await worker.started.wait()
    if supervised is not None:
        supervised.say(STARTED)
    failures = FailureLog(_log, "looking whether any job is left (--once)")
    while wishes.once and not worker.stopping.draining.is_set():
        if worker.id is not None and await _is_idle(app, worker.id, options, failures):
            if supervised is not None:
                supervised.say(FINISHED)
            worker.stopping.draining.set()
        await asyncio.sleep(_LOOK_SECONDS)


async def _is_idle(app: App, worker: int, options: WorkerOptions, failures: FailureLog) -> bool:
    try:
        question = is_idle(app.schema, worker=worker, queues=tuple(options.queues), kinds=tuple(app.kinds))
        answer = (await app.run(question))[0]
    except DatabaseError as error:
        failures.failed(error)
        return False
    failures.worked()
    return answer


class Ending:
    """Told to end by signals, or by a supervisor. Entered around the worker."""

    def __init__(self, stopping: Stopping, grace: timedelta, supervised: Supervised | None) -> None:
        self._stopping = stopping
        self._grace = grace
        self._supervised = supervised
        self._loop = asyncio.get_running_loop()
        self._asked = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        heed = self.ask
        if self._supervised is not None:
            self._supervised.listen(self.order)
            heed = self.drain

        def heard(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the shape of a handler
            heed()

        # Not the event loop's own handlers: the third signal must count while a job blocks the loop.
        self._before = {number: signal.signal(number, heard) for number in _SIGNALS}

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Whoever told this process to end wants it gone, whatever its threads still do."""
        if self._asked:
            seconds = _HURRIED_SECONDS if self._stopping.hurried.is_set() else _PARTING_SECONDS
            _exit_in(seconds, 0 if kind is None else 1)
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ask(self) -> None:
        """The first time to drain, the second time to hurry, the third time to end as it stands: the jobs
        are left to be rescued.
        """
        if self._asked == 2:  # noqa: PLR2004  # as the docstring counts
            os._exit(1)
        self._tell(is_hurried=self._asked == 1)

    def drain(self) -> None:
        """Any number of times: a service manager signals every process, and the supervisor tells us too."""
        self._tell(is_hurried=False)

    def order(self, order: bytes) -> None:
        self._tell(is_hurried=order == HURRY)
        # If the event loop does not come round to it, nobody may be there any more to kill us.
        _exit_in(self._grace.total_seconds() + 30, 1)

    def _tell(self, *, is_hurried: bool) -> None:
        self._asked += 1
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._heed, is_hurried)

    def _heed(self, is_hurried: bool) -> None:
        if is_hurried and not self._stopping.hurried.is_set():
            self._stopping.hurried.set()
            _log.info("stopping at once: what still runs is given back")
        elif not self._stopping.draining.is_set():
            say(_log, logging.INFO, "draining, a second signal stops at once", grace=compact(self._grace))
        self._stopping.draining.set()


def _exit_in(seconds: float, code: int) -> None:
    """End this process, unless it has ended by itself until then."""

    def end() -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
