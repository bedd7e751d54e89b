"""Tells workers of new jobs after they were committed: one coalesced NOTIFY, from a task or thread.

A NOTIFY inside the enqueue's own transaction takes a lock that all such commits share. So an enqueue carries
one only when this process has said nothing for a while: what follows close behind is told by the next that
does, or by a statement of its own when there is no next.
"""

import asyncio
import atexit
import logging
import queue
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from holdfast.domain.job import NewJob
from holdfast.errors import DatabaseClosed, DatabaseError
from holdfast.postgres.blocking import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.producer.nearby_workers import NearbyWorkers

_log = logging.getLogger("holdfast.producer")

_PAUSE = 0.002
_WAKING = "waking workers, which poll meanwhile,"


LEADER = ""
"""Stands for the leader, who is told that something is due later."""

# Nothing that concerns a job goes over such connections, so their commits need not wait for the disk.
HINTS = PoolOptions(pool_min_conns=1, pool_max_conns=1, synchronous_commit=False)
# Of a caller who blocks, and has committed: for a hint it waits no longer than this.
BLOCKING_HINTS = replace(HINTS, pool_timeout=timedelta(seconds=2))


def wishes(jobs: Iterable[NewJob]) -> set[str]:
    """Who is to be woken for new jobs: their queues, or the leader."""
    return {LEADER if job.delay or job.run_at else job.policy.queue for job in jobs}


def notify(channel: str, payload: str = "") -> Statement[object]:
    return Statement(
        "notify",
        "select pg_catalog.pg_notify(%(channel)s::text, %(payload)s::text)",
        {"channel": channel, "payload": payload},
        lambda nothing: nothing,
    )


def _wake(schema: Schema, names: set[str]) -> Statement[object]:
    return Statement(
        "wake",
        f"/* {schema.name}.wake */ select pg_notify(channel, payload)"  # noqa: S608  # a checked name
        " from unnest(%(channels)s::text[], %(payloads)s::text[]) as w (channel, payload)",
        {
            "channels": [f"{schema.name}.{'ready' if name else 'due'}" for name in sorted(names)],
            "payloads": sorted(names),
        },
        lambda nothing: nothing,
    )


class Quiet:
    """Since when nothing was said. `_PAUSE` seconds lie between any two words of one process."""

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def say(self) -> None:
        self._said_at = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds until the next word may be said."""
        return self._said_at + _PAUSE - time.monotonic()


class Notifier:
    """Sends at once after a silence; what comes soon after a NOTIFY goes with the next one."""

    def __init__(self, database: Database, schema: Schema, nearby: NearbyWorkers | None = None) -> None:
        """`nearby` are told at once, whether or not notifications arrive here."""
        self._database = database
        self._schema = schema
        self._nearby = nearby or NearbyWorkers()
        self._names: set[str] = set()
        self._quiet = Quiet()
        self._failures = FailureLog(_log, _WAKING)
        self._task: asyncio.Task[None] | None = None

    def may_ride(self, names: set[str]) -> bool:
        """Whether an enqueue that is sent now may carry a NOTIFY for these; who asks and hears so, does."""
        if self._quiet.left > 0 or not self._names <= names:
            return False
        self._quiet.say()
        self._names = set()
        return True

    def tell(self, names: set[str], *, has_ridden: bool = False) -> None:
        """After the commit. `has_ridden`: the enqueue has carried the NOTIFY."""
        self._nearby.tell(names)
        if has_ridden:
            return
        self._names |= names
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def finish(self) -> None:
        """Until everything was said. Missed wake-ups only cost the wait for a poll."""
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    async def _send(self) -> None:
        while self._names:
            # For as long again, the next enqueue may take it along.
            wait = self._quiet.left + _PAUSE
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            names, self._names = self._names, set()
            self._quiet.say()
            try:
                await self._database.run(_wake(self._schema, names))
                self._failures.worked()
            except DatabaseClosed as error:
                _log.debug("a wake-up could not be sent, workers will poll: %s", error)
                return
            except DatabaseError as error:
                self._failures.failed(error)
                return


class BlockingNotifier:
    """The same from a thread, for callers without an event loop."""

    def __init__(
        self, database: BlockingDatabase, schema: Schema, nearby: NearbyWorkers | None = None
    ) -> None:
        self._database = database
        self._schema = schema
        self._nearby = nearby or NearbyWorkers()
        self._wishes: queue.SimpleQueue[set[str] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._quiet = Quiet()
        self._failures = FailureLog(_log, _WAKING)
        self._thread: threading.Thread | None = None

    def may_ride(self) -> bool:
        """Whether an enqueue that is sent now may carry its own NOTIFY; who asks and hears so, does."""
        with self._lock:
            is_silent = self._wishes.empty() and self._quiet.left <= 0
            if is_silent:
                self._quiet.say()
            return is_silent

    def tell(self, names: set[str], *, has_ridden: bool = False) -> None:
        """After the commit. `has_ridden`: the enqueue has carried the NOTIFY."""
        self._nearby.tell(names)
        if has_ridden:
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                # A short script must not end before it was said; then nothing can be opened any more.
                try:
                    self._database.open()
                except DatabaseError as error:
                    # The jobs are committed: a caller who is told of an error would write them again.
                    self._failures.failed(error)
                atexit.register(self.finish)
                self._thread = threading.Thread(target=self._send, name="holdfast-notifier", daemon=True)
                self._thread.start()
        self._wishes.put(names)

    def finish(self) -> None:
        """Until everything was said, within a bound."""
        atexit.unregister(self.finish)
        thread = self._thread
        if thread is not None and thread.is_alive():
            self._wishes.put(None)
            thread.join(5)

    def _send(self) -> None:
        while (names := self._wishes.get()) is not None:
            together = set(names)
            is_last = False
            time.sleep(max(self._quiet.left, 0))
            self._quiet.say()
            while not self._wishes.empty():
                more = self._wishes.get()
                is_last = is_last or more is None
                together |= more or set()
            try:
                self._database.run(_wake(self._schema, together))
                self._failures.worked()
            except DatabaseClosed as error:
                _log.debug("a wake-up could not be sent, workers will poll: %s", error)
            except DatabaseError as error:
                self._failures.failed(error)
            if is_last:
                return
