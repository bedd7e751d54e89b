"""Renews this worker's lease by heartbeats from a thread of its own, so that a handler that blocks the event
loop does not lose it.

The end of the lease is counted on the local monotonic clock from before the heartbeat was sent: the process
never relies on its lease for longer than the database does.

What happens when heartbeats fail, counted from the last one that worked, with the defaults of `Beats`:

 5 s  The next heartbeat fails (`_beat`). The log says so once, and it is tried again every 0.5 s. Runs go on.
      If one works before 28 s, nothing else has happened.
28 s  The process stops relying on the lease (`_end`), even while the thread still waits for a reply
      (`_check_time`, on the event loop). `Registrar.lost` in `worker/identity.py` takes the identity away, so
      that nothing is claimed, and `Attempts.tell_to_stop` stops every run with `Stop.LOST`: coroutines are
      cancelled, child processes killed, threads told. What they come to is not settled; the log has a line
      for each, and `on_lease_lost` is called. `Lease.check` refuses a handler that was about to begin.
      `Registrar` tries every 0.5 s to register this worker again, under another id.
30 s  `worker.expires_at` passes on the database's clock. The leader sees it when it renews its own lease, and
      `worker/chores/job_rescuer.py` marks the worker as lost and takes its runs away. `decide` in
      `domain/transition.py` says what follows: a retry with backoff, or failed.
40 s  Other workers have the jobs, or will have them after their backoff. What this process may still send is
      refused by the fence (job, run, worker). As soon as the database answers it, it is a new worker.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from holdfast.domain.retention import Retention
from holdfast.domain.steering import Activity
from holdfast.domain.transition import ReleaseJob
from holdfast.errors import DatabaseError
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.conversation import hold_blocking
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.storage.runs import Heartbeat, Settlement, renew, settle_surely
from holdfast.worker.lease import Lease
from holdfast.worker.loop_watch import LOOK_SECONDS, LoopWatch
from holdfast.worker.service import through_cancellation
from holdfast.worker.wake_ups import ALWAYS_HEARD, WakeUps

_log = logging.getLogger("holdfast.worker")

_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Beats:
    """How long a lease lasts, and how often it is renewed."""

    lease: timedelta = timedelta(seconds=30)
    interval: timedelta = timedelta(seconds=5)

    @property
    def margin(self) -> float:
        """How many seconds before its end the worker stops relying on a lease."""
        return min(2.0, self.lease.total_seconds() / 5)


class LeaseKeeper:
    """Runs for longer than every attempt. Its callbacks are called on the event loop."""

    def __init__(
        self,
        database: BlockingDatabase,
        schema: Schema,
        beats: Beats,
        *,
        retention: Retention,
        runs: Callable[[], Sequence[int]],
        doing: Callable[[], tuple[Activity, Sequence[int]]],
        claiming_since: Callable[[], float | None],
        on_news: Callable[[int, Heartbeat], None],
        on_lost: Callable[[int], None],
        on_released: Callable[[], None],
        watch: LoopWatch,
        wake_ups: WakeUps = ALWAYS_HEARD,
    ) -> None:
        self._database = database
        self._schema = schema
        self._beats = beats
        self._retention = retention
        self._runs = runs
        self._doing = doing
        self._claiming_since = claiming_since
        self._on_news = on_news
        self._on_lost = on_lost
        self._on_released = on_released
        self._watch = watch
        self._wake_ups = wake_ups
        self._poked = threading.Event()
        self._is_stopping = False
        self._worker: int | None = None
        self._lease: Lease | None = None
        self._unknown: dict[int, float] = {}
        self._failures = FailureLog(_log, "renewing the worker's lease")
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # When the thread last came round, whether or not the database answered it. For a probe.
        self.came_round_at: float | None = None

    def begin(self, worker: int, sent_at: float) -> Lease:
        """Keep the lease of this worker, whose registration was sent at `sent_at`."""
        self._unknown = {}
        lease = self._lease = Lease(worker, self._believed_from(sent_at))
        self._worker = worker
        self.poke()
        return lease

    def _believed_from(self, sent_at: float) -> float:
        return sent_at + self._beats.lease.total_seconds() - self._beats.margin

    def poke(self) -> None:
        """Send a heartbeat now: it brings what is asked of this worker, or tells what the worker does."""
        self._poked.set()

    async def run(self) -> None:
        """Keep the lease until cancelled. The thread has ended when this returns."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._keep, name="holdfast-lease-keeper", daemon=True)
        self._thread.start()
        try:
            while True:
                await asyncio.sleep(
                    self._beats.interval.total_seconds() if self._worker is None else self._time_left()
                )
                self._check_time()
        finally:
            self._is_stopping = True
            self._poked.set()
            await through_cancellation(asyncio.to_thread(self._thread.join, 10))

    def _keep(self) -> None:
        wait = self._beats.interval.total_seconds()
        while True:
            self._wait(wait)
            self._poked.clear()
            if self._is_stopping:
                return
            worker = self._worker
            # Without an identity there is nothing to renew: registering again pokes.
            wait = self._beats.interval.total_seconds() if worker is None else self._beat(worker)

    def _wait(self, seconds: float) -> None:
        """Wait until it is time or `poke` is called, and watch the event loop in the meantime."""
        if not self._wake_ups.are_heard():
            seconds = min(seconds, self._wake_ups.poll)  # no notification of a cancel request can come
        self.came_round_at = monotonic()
        until = self.came_round_at + seconds
        while (left := until - monotonic()) > 0 and not self._poked.wait(min(left, LOOK_SECONDS)):
            self.came_round_at = monotonic()
            self._watch.look()

    def _beat(self, worker: int) -> float:
        """Send one heartbeat. Returns how many seconds to wait before the next."""
        sent_at = monotonic()
        try:
            activity, queue_slots = self._doing()
            news = self._database.run_one(
                renew(
                    self._schema,
                    worker=worker,
                    lease=self._beats.lease,
                    runs=self._runs(),
                    activity=activity,
                    queue_slots=queue_slots,
                )
            )
            if news.is_alive:
                if self._lease is not None and self._lease.worker == worker:
                    self._lease.believed_until = self._believed_from(sent_at)
                self._give_back(worker, news)
        except DatabaseError as error:
            self._failures.failed(error)
            return self._without_renewal(worker)
        except Exception as error:  # noqa: BLE001  # if this thread died, every run would be lost
            if self._failures.failed(error):
                _log.exception("the lease keeper met an error and continues")
            return self._without_renewal(worker)
        self._failures.worked()
        if news.is_alive:
            self._call(self._on_news, worker, news)
            return self._beats.interval.total_seconds()
        self._end(worker)
        return self._beats.interval.total_seconds()

    def _without_renewal(self, worker: int) -> float:
        left = self._time_left()
        if left <= 0:
            self._end(worker)
        return min(_RETRY_SECONDS, max(left, 0.01))

    def _time_left(self) -> float:
        """For how many seconds this process may still rely on the lease."""
        return (self._lease.believed_until if self._lease is not None else 0.0) - monotonic()

    def _check_time(self) -> None:
        """On the event loop, since the thread may wait for a reply for longer than the lease lasts."""
        worker = self._worker
        if worker is not None and self._time_left() <= 0:
            self._end(worker)

    def _end(self, worker: int) -> None:
        """The lease is gone, or has to be treated as gone: every run under it has to stop."""
        if self._worker == worker:
            self._worker = None
            self._call(self._on_lost, worker)

    def _give_back(self, worker: int, news: Heartbeat) -> None:
        """Release leases that this process has not known for two heartbeats. The reply of their claim was
        lost, so no handler runs; the attempt is refunded. Runs that a claim under way may still bring are
        left.
        """
        now = monotonic()
        unknown = dict(zip(news.unknown_runs, news.unknown_jobs, strict=True))
        self._unknown = {run: self._unknown.get(run, now) for run in unknown}
        claiming = self._claiming_since()
        long_ago = now - 2 * self._beats.interval.total_seconds()
        lost = [
            run
            for run, seen in self._unknown.items()
            if seen <= long_ago and (claiming is None or claiming > seen)
        ]
        if lost:
            _log.warning("releasing %d runs that were claimed but never arrived", len(lost))
            releases = [Settlement(worker, unknown[run], run, ReleaseJob()) for run in lost]
            settling = settle_surely(self._schema, releases, retention=self._retention, is_noticed=True)
            hold_blocking(settling, self._database.run)
            self._call(self._on_released)

    def _call(self, function: Callable[..., None], *args: object) -> None:
        assert self._loop is not None, "started by run()"  # noqa: S101  # a mistake of this package
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            _log.debug("the event loop is closed; the lease keeper ends")
            self._is_stopping = True
