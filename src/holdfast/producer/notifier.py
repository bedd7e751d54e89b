"""Wakes workers for new jobs after their commit: one NOTIFY for many jobs, from a task of its own.

A NOTIFY inside the enqueue's own transaction takes a lock that all such commits share. So an enqueue carries
one only when this process has sent none for a while. Jobs that follow close behind are announced by the next
enqueue that carries one, or by a statement of the notifier's own when there is no next enqueue.
"""

import asyncio
import logging
from contextlib import suppress

from holdfast.errors import DatabaseClosed, DatabaseError
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.producer.nearby_workers import NearbyWorkers
from holdfast.producer.wake_ups import PAUSE, NotifyPace, wake

log = logging.getLogger("holdfast.producer")

WAKING = "waking workers by NOTIFY (they still poll)"


class Notifier:
    """Sends at once after a silence; what comes soon after a NOTIFY goes with the next one."""

    def __init__(self, database: Database, schema: Schema, nearby: NearbyWorkers | None = None) -> None:
        """Wakes `nearby` workers at once, whether or not notifications arrive here."""
        self._database = database
        self._schema = schema
        self._nearby = nearby or NearbyWorkers()
        self._names: set[str] = set()
        self._pace = NotifyPace()
        self._failures = FailureLog(log, WAKING)
        self._task: asyncio.Task[None] | None = None

    def may_carry(self, names: set[str]) -> bool:
        """Whether an enqueue that is sent now carries a NOTIFY for these. If so, the caller must send it."""
        if self._pace.wait > 0 or not self._names <= names:
            return False
        self._pace.sent()
        self._names = set()
        return True

    def tell(self, names: set[str], *, is_notified: bool = False) -> None:
        """After the commit. `is_notified`: the enqueue has carried the NOTIFY."""
        self._nearby.tell(names)
        if is_notified:
            return
        self._names |= names
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def finish(self) -> None:
        """Wait until everything is sent. A missed wake-up only costs the wait for a poll."""
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    async def _send(self) -> None:
        while self._names:
            # For one more pause, the next enqueue may carry it.
            wait = self._pace.wait + PAUSE
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            names, self._names = self._names, set()
            self._pace.sent()
            try:
                await self._database.run(wake(self._schema, names))
                self._failures.worked()
            except DatabaseClosed as error:
                log.debug("a wake-up could not be sent, workers will poll: %s", error)
                return
            except DatabaseError as error:
                self._failures.failed(error)
                return
