"""Writes the log lines of runs that keep them: every second while a run goes on, and before its end is
settled, so that whoever sees the end can read the lines. No job waits long for it, and none fails by it: what
cannot be written in time is written later, and what is too much is dropped, with a warning.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic

from msgspec import json, structs

from holdfast.domain.failure import storable
from holdfast.domain.kept_logs import KeptLine, is_kept
from holdfast.domain.redaction import scrubbed
from holdfast.domain.states import RunOutcome
from holdfast.errors import StatementFailed
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.postgres.translate import one_line
from holdfast.storage.logs import LogLines, LogTrim, put_lines, trim_lines
from holdfast.worker.attempt_outcome import secrets_of
from holdfast.worker.claimed_run import ClaimedRun
from holdfast.worker.job_kind import Kinds
from holdfast.worker.line_catcher import catcher
from holdfast.worker.run_lines import RunLines, Taken
from holdfast.worker.service import Alarm

LIVE_SECONDS = 1.0
# How long an end waits for its lines, and how long a statement may take.
_END_SECONDS = 1.0
_WRITE_SECONDS = 2.0
_RETRY_SECONDS = 0.5
BATCH = 500
_BATCH_SIZE = 1024 * 1024
WAITING_SIZE = 8 * 1024 * 1024
"""How much may wait for a database that is away, in characters, of all runs together."""

_encode = json.Encoder().encode
_NUL = "\\u0000"

_log = logging.getLogger("holdfast.worker")


class _Waiting:
    """Lines that are to be written. `written` is for an end that waits for it."""

    __slots__ = ("lines", "size", "trim", "written")

    def __init__(self, claimed: ClaimedRun, taken: Taken) -> None:
        self.lines = _stored(claimed, taken)
        self.size = taken.size
        self.trim = LogTrim(claimed.job, claimed.run, taken.trim) if taken.trim else None
        self.written: asyncio.Future[None] | None = None

    def done(self) -> None:
        if self.written is not None and not self.written.done():
            self.written.set_result(None)


class LogKeeper:
    """Used on the event loop. `begin` and `end` are called only for runs of kinds that keep lines."""

    def __init__(self, database: Database, schema: Schema, kinds: Kinds) -> None:
        self._database = database
        self._schema = schema
        self._is_needed = any(kind.keep_logs != "never" for kind in kinds.values())
        self._live: dict[int, ClaimedRun] = {}
        self._waiting: deque[_Waiting] = deque()
        self._size = 0
        self._dropped = 0
        self._is_away = False
        # What is being written now.
        self._sent: list[_Waiting] = []
        self._patience: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._failures = FailureLog(_log, "keeping log lines of jobs")
        self._alarm = Alarm()
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self, claimed: ClaimedRun) -> None:
        """From now on the lines of this run are caught."""
        catcher.stay()
        claimed.lines = RunLines()
        if claimed.kind.keep_logs == "always":
            self._live[claimed.run] = claimed

    async def end(self, claimed: ClaimedRun, outcome: RunOutcome | None) -> None:
        """The run is about to be settled so; None: it has lost its lease. Returns when its lines are written,
        or after a second. A run that is told to stop meanwhile goes on to its end.
        """
        self._live.pop(claimed.run, None)
        taken = self._taken(claimed, is_last=True)
        if taken is None or not is_kept(claimed.kind.keep_logs, outcome):
            return
        waiting = self._put(claimed, taken)
        if self._is_away:
            return
        waiting.written = self._loop.create_future()
        if self._patience is None:
            # One timer for all that wait: one for each would cost more than its lines.
            self._patience = self._loop.call_later(_END_SECONDS, self._lose_patience)
        with suppress(asyncio.CancelledError):
            await waiting.written

    async def drained(self) -> None:
        """Wait until everything is written."""
        await self._idle.wait()

    async def run(self) -> None:
        if not self._is_needed:
            await asyncio.Event().wait()
        look_at = monotonic() + LIVE_SECONDS
        with catcher.at_work():
            while True:
                await self._alarm.sleep(max(look_at - monotonic(), 0))
                if monotonic() >= look_at:
                    look_at = monotonic() + LIVE_SECONDS
                    self._gather()
                while self._waiting:
                    await self.once()
                self._idle.set()

    def _gather(self) -> None:
        """Take what runs under way have said since the last time."""
        for claimed in list(self._live.values()):
            taken = self._taken(claimed)
            if taken is not None:
                self._put(claimed, taken)

    @staticmethod
    def _taken(claimed: ClaimedRun, *, is_last: bool = False) -> Taken | None:
        lines = claimed.lines
        if lines is None:
            return None
        catcher.acquire()
        try:
            lines.is_closed = is_last
            return lines.take()
        finally:
            catcher.release()

    def _put(self, claimed: ClaimedRun, taken: Taken) -> _Waiting:
        waiting = _Waiting(claimed, taken)
        self._waiting.append(waiting)
        self._size += waiting.size
        self._idle.clear()
        self._bound()
        self._alarm.ring()
        return waiting

    def _bound(self) -> None:
        while self._size > WAITING_SIZE and len(self._waiting) > 1:
            oldest = self._waiting.popleft()
            self._size -= oldest.size
            self._drop(oldest, "too many wait for the database")

    async def once(self) -> None:
        """Write one batch. What the database cannot take now stays for the next one; what it refuses is
        dropped.
        """
        batch = self._batch()
        try:
            await self._write(batch)
        except asyncio.CancelledError:
            self._put_back(batch)
            raise
        except StatementFailed as error:
            await self._apart(batch, error)
        except Exception as error:  # noqa: BLE001  # told; a job must not fail by its log
            await self._wait(batch, error)
        else:
            self._came_through(batch)

    async def _apart(self, batch: list[_Waiting], error: Exception) -> None:
        """The lines of one run may be what the database refuses: each goes alone."""
        if len(batch) == 1:
            self._drop(batch[0], one_line(error))
            return
        while batch:
            try:
                await self._write(batch[:1])
                self._came_through(batch[:1])
            except asyncio.CancelledError:
                self._put_back(batch)
                raise
            except StatementFailed as refused:
                self._drop(batch[0], one_line(refused))
            except Exception as problem:  # noqa: BLE001  # an outage in the middle of it; told
                await self._wait(batch, problem)
                return
            batch = batch[1:]

    async def _wait(self, batch: list[_Waiting], error: Exception) -> None:
        """An outage: the ends that wait go on without their lines, which stay here."""
        self._failures.failed(error)
        self._is_away = True
        self._put_back(batch)
        self._let_go()
        await asyncio.sleep(_RETRY_SECONDS)

    def _lose_patience(self) -> None:
        self._patience = None
        self._let_go()

    def _let_go(self) -> None:
        """The ends that wait go on; their lines are written when they can be."""
        for each in (*self._sent, *self._waiting):
            each.done()

    def _batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < BATCH and (not batch or size < _BATCH_SIZE):
            batch.append(self._waiting.popleft())
            size += batch[-1].size
        self._size -= size
        self._sent = batch
        return batch

    def _put_back(self, batch: list[_Waiting]) -> None:
        self._waiting.extendleft(reversed(batch))
        self._size += sum(each.size for each in batch)
        self._bound()

    async def _write(self, batch: list[_Waiting]) -> None:
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._database.run(put_lines(self._schema, [each.lines for each in batch]))
                if trims := [each.trim for each in batch if each.trim is not None]:
                    await self._database.run(trim_lines(self._schema, trims))
        except TimeoutError:
            raise self._database.no_answer(_WRITE_SECONDS) from None

    def _came_through(self, batch: list[_Waiting]) -> None:
        self._failures.worked()
        self._is_away = False
        if self._dropped:
            _log.warning("%d log lines of jobs are not kept", self._dropped)
            self._dropped = 0
        for each in batch:
            each.done()

    def _drop(self, waiting: _Waiting, reason: str) -> None:
        """Said at once the first time, and with the whole number once lines are written again."""
        if not self._dropped:
            _log.warning("log lines of job %d and maybe others are not kept: %s", waiting.lines.job, reason)
        self._dropped += waiting.lines.last - waiting.lines.first + 1
        waiting.done()


def _stored(claimed: ClaimedRun, taken: Taken) -> LogLines:
    """Without the secrets that they quote, and in characters that Postgres takes."""
    secrets, lines = secrets_of(claimed), taken.lines
    if secrets:
        lines = [structs.replace(line, message=scrubbed(line.message, secrets)) for line in lines]
    try:
        text = _encoded(lines)
    except UnicodeEncodeError:  # half of a surrogate pair
        text = _encoded(map(_storable, lines))
    if _NUL in text:
        text = _encoded(map(_storable, lines))
    return LogLines(claimed.job, claimed.run, taken.last - len(lines) + 1, taken.last, text)


def _encoded(lines: Iterable[KeptLine]) -> str:
    return _encode(list(lines)).decode()


def _storable(line: KeptLine) -> KeptLine:
    return KeptLine(line.time, line.level, storable(line.logger), storable(line.message))
