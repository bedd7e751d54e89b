"""Threads that go on after their run was told to stop. A thread cannot be stopped, and its job must not run
twice at once. So the run is not settled before its thread ends; if the run is taken away, its thread is
remembered, and the next run of that job is put off.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any

from holdfast.domain.failure import Failure
from holdfast.domain.transition import SnoozeJob
from holdfast.worker.claimed_run import ClaimedRun, Stop

_AT_ONCE = (Stop.LOST, Stop.SHUTDOWN)
_SHORTEST = timedelta(seconds=5)
_LONGEST = timedelta(minutes=5)


class StrayThreads:
    """Used on the event loop. `since` says, by job, when its thread was told to stop. Workers of one app that
    follow each other share it.
    """

    def __init__(self, since: dict[int, float]) -> None:
        self._loop = asyncio.get_running_loop()
        self.since = since

    async def end(self, claimed: ClaimedRun, thread: "Future[Any]") -> None:
        """Wait for the thread, unless its run was taken away or the process ends."""
        ended = asyncio.Event()
        # Set before waiting: another run may be claimed before we hear that this one was taken away.
        self.since.update(dict.fromkeys(claimed.jobs, monotonic()))
        thread.add_done_callback(lambda _: self._on_loop(ended.set))
        while not ended.is_set() and claimed.stop not in _AT_ONCE:
            told = claimed.stop
            try:
                await ended.wait()
            except asyncio.CancelledError:
                # A new reason to stop does not end the wait. A cancellation without one means that the worker
                # shuts down: the outcome is handed over without waiting any longer.
                if claimed.stop is told:
                    break
        if thread.done():
            self._forget(claimed.jobs)

    def remember(self, claimed: ClaimedRun, thread: "Future[Any]", then: Callable[[str], None]) -> None:
        """Remember the thread until it ends; then `then` gives back the slot of its queue."""
        jobs = claimed.jobs

        def ended(_: "Future[Any]") -> None:
            self._forget(jobs)
            self._on_loop(lambda: then(claimed.queue))

        for job in jobs:
            self.since.setdefault(job, monotonic())
        thread.add_done_callback(ended)

    def put_off(self, job: int) -> SnoozeJob:
        """For another run of such a job: it waits as long again as the thread has already gone on."""
        now = monotonic()
        since = timedelta(seconds=now - self.since.get(job, now))  # it may just have ended
        failure = Failure(
            "an earlier run, which was taken away, still runs in this process: plain functions cannot be "
            'stopped, see isolate="process"',
            "timeout",
        )
        return SnoozeJob(min(max(since, _SHORTEST), _LONGEST), failure)

    def _forget(self, jobs: Iterable[int]) -> None:
        for job in jobs:
            self.since.pop(job, None)

    def _on_loop(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function)
