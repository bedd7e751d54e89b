"""Threads that outlive what was asked of them. Nobody can stop a thread, so that a job must not begin again
beside its own: its run is not settled before the thread ends, and one that was taken away is remembered.
"""

import asyncio
from collections.abc import Callable
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
    """Used on the event loop. Knows, by job, since when a thread goes on that was told to stop: also one of
    an earlier worker of the same app, as long as `since` is the same.
    """

    def __init__(self, since: dict[int, float]) -> None:
        self._loop = asyncio.get_running_loop()
        self.since = since

    async def end(self, claimed: ClaimedRun, thread: "Future[Any]") -> None:
        """Wait for it; unless its run was taken away, or the process ends."""
        ended = asyncio.Event()
        # From now on: another run may be claimed before we hear that this one was taken away.
        self.since[claimed.job] = monotonic()
        thread.add_done_callback(lambda _: self._on_loop(ended.set))
        while not ended.is_set() and claimed.stop not in _AT_ONCE:
            told = claimed.stop
            try:
                await ended.wait()
            except asyncio.CancelledError:
                # Told to stop meanwhile, it is waited for still. If nothing new was said, patience is over;
                # what the run came to is handed over without waiting for anything more.
                if claimed.stop is told:
                    break
        if thread.done():
            self.since.pop(claimed.job, None)

    def remember(self, claimed: ClaimedRun, thread: "Future[Any]", then: Callable[[str], None]) -> None:
        """Until it ends; `then` gives the slot of its queue back."""

        def ended(_: "Future[Any]") -> None:
            self.since.pop(claimed.job, None)
            self._on_loop(lambda: then(claimed.queue))

        self.since.setdefault(claimed.job, monotonic())
        thread.add_done_callback(ended)

    def put_off(self, job: int) -> SnoozeJob:
        """What happens to another run of such a job: it waits as long again as the thread has gone on for."""
        now = monotonic()
        since = timedelta(seconds=now - self.since.get(job, now))  # it may just have ended
        failure = Failure(
            "an earlier run, which was taken away, still runs in this process: plain functions cannot be "
            'stopped, see isolate="process"',
            "timeout",
        )
        return SnoozeJob(min(max(since, _SHORTEST), _LONGEST), failure)

    def _on_loop(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function)
