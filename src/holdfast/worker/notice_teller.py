"""Calls the hooks of jobs that ended, or lost an attempt, without a worker of theirs to tell of it: rescued
from a killed worker, taken away past a timeout, expired or cancelled while they waited.

At least once: a notice is deleted after its hooks were called. One whose teller was killed is taken again.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

from holdfast.errors import DatabaseError, JobEnded
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.storage.notices import Notice, drop_notice, take_notices
from holdfast.storage.runs import ClaimRow
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.context import Context
from holdfast.worker.hook_caller import HookCaller
from holdfast.worker.job_kind import Kinds
from holdfast.worker.service import Alarm

_log = logging.getLogger("holdfast.worker")

_TRIES = 5
_FOR_EVER = 3_600.0
_AGAIN_SECONDS = 1.0


class NoticeTeller:
    """Sleeps until the heartbeat, or a chore of this process, says that there is something to tell."""

    def __init__(
        self,
        database: Database,
        schema: Schema,
        kinds: Kinds,
        hooking: HookCaller,
        *,
        worker: Callable[[], int | None],
        context: Callable[[ClaimedRun], Context],
    ) -> None:
        self._database = database
        self._schema = schema
        self._kinds = kinds
        self._hooking = hooking
        self._worker = worker
        self._context = context
        self._alarm = Alarm()
        self._failures = FailureLog(_log, "telling hooks")

    def wake(self) -> None:
        self._alarm.ring()

    async def run(self) -> None:
        wait = _FOR_EVER
        while True:
            await self._alarm.sleep(wait)
            wait = _FOR_EVER
            try:
                while await self.once():
                    pass
                self._failures.worked()
            except DatabaseError as error:
                self._failures.failed(error)
                wait = _AGAIN_SECONDS

    async def once(self) -> int:
        """Take some, call their hooks one after the other, delete each. Answers how many."""
        worker = self._worker()
        if worker is None:
            return 0
        taken = await self._database.run(take_notices(self._schema, worker=worker, kinds=tuple(self._kinds)))
        for notice in taken:
            if notice.tries > _TRIES:
                _log.error(
                    "hooks given up: %s workers ended, each while calling them: job=%d kind=%s outcome=%s",
                    _TRIES,
                    notice.job,
                    notice.kind,
                    notice.outcome,
                )
            else:
                try:
                    await self._tell(worker, notice)
                except Exception:  # noqa: BLE001  # of a damaged row: it is dropped, and the next one told
                    _log.exception(
                        "hooks not called, the stored notice cannot be read: job=%d kind=%s",
                        notice.job,
                        notice.kind,
                    )
            await self._database.run(drop_notice(self._schema, notice))
        return len(taken)

    async def _tell(self, worker: int, notice: Notice) -> None:
        kind = self._kinds[notice.kind]
        claimed = ClaimedRun(notice.worker or worker, notice.queue, _claimed(notice), kind)
        claimed.stop = Stop.LOST  # nothing of this run can be written any more
        context = self._context(claimed)
        error = JobEnded(job=notice.job, state=notice.outcome, error=_error_of(notice))
        for name, hook in kind.hooks.told_of(notice.outcome):
            if hook is not None:
                await self._hooking.call(name, claimed, hook, context, error)


def _error_of(notice: Notice) -> dict[str, Any]:
    """What the ledger has. A row that was damaged by hand may hold any JSON."""
    found = json.loads(notice.error) if notice.error else {}
    return found if isinstance(found, dict) else {}


def _claimed(notice: Notice) -> ClaimRow:
    """The run as its worker had it, as far as hooks look at it."""
    return ClaimRow(
        ring_version=0,
        closed=None,
        job=notice.job,
        run=notice.run,
        attempt=notice.attempt,
        kind=notice.kind,
        args="{}",
        priority=notice.priority,
        max_attempts=notice.max_attempts,
        backoff=None,
        started_at=notice.at,
        lasting=0.0,
        created_at=notice.created_at,
        deadline_at=notice.deadline_at,
        tags=notice.tags,
        state=notice.state,
        origin=notice.origin,
    )
