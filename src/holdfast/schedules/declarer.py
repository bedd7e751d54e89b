"""Schedules that are declared in code. A worker writes its own to the database when it starts, deletes no
others, and confirms from then on that they are still declared. It also reads their scopes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from holdfast.domain.retention import HISTORY
from holdfast.domain.schedule_rules import Rules
from holdfast.domain.timing import Timing, timing_from_json
from holdfast.errors import (
    DatabaseError,
    HoldfastError,
    InvalidArguments,
    InvalidInput,
    ScheduleConflict,
    StatementFailed,
)
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.schedules.planner import Planner
from holdfast.schedules.scopes import Read, Source, ask_source, check_source, use
from holdfast.storage.schedules import (
    WHOLE_APP,
    NewSchedule,
    find,
    put,
    put_whole,
    set_scopes,
    tend,
    trouble,
)
from holdfast.telemetry.events import ChoreFailed, Emitter, ScheduleFailed, ScopesAwaited
from holdfast.worker.job_kind import Kind

TEND = timedelta(seconds=60)
SLOW = timedelta(seconds=5)
_AGAIN = timedelta(seconds=5)
_SOURCES = 4

_log = logging.getLogger("holdfast.schedules")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A schedule over a kind of job. `args` are for the job, and for scopes that bring none of their own."""

    name: str
    kind: Kind
    timing: Timing
    rules: Rules
    args: Mapping[str, Any] | None = None
    history: timedelta = HISTORY
    scopes: Source | None = None

    def __post_init__(self) -> None:
        if self.scopes is not None:
            check_source(self.scopes, f'schedule "{self.name}" of job "{self.kind.name}"')
        # Checked now, by being made. Arguments are checked later, when annotations can be resolved.
        NewSchedule(self.name, self.timing, self.kind.policy, rules=self.rules, history=self.history)

    @property
    def has_args(self) -> bool:
        """Whether the job can be called with what the schedule gives it."""
        try:
            self._encoded()
        except InvalidArguments:
            return False
        return True

    @property
    def has_source(self) -> bool:
        """Whether its scopes have to be asked for, which may take long."""
        return isinstance(self.scopes, str) or callable(self.scopes)

    def new(self) -> NewSchedule:
        """As it is written. InvalidArguments if the job cannot be called with the arguments given, and
        InvalidInput if they lack the key of a limit.
        """
        is_left_to_scopes = self.scopes is not None and self.args is None and not self.has_args
        if self.scopes is None and self.kind.limits is not None:
            self.kind.limits.of(self._encoded())
        return NewSchedule(
            self.name,
            self.timing,
            self.kind.policy,
            "{}" if is_left_to_scopes else self._encoded(),
            self.rules,
            self.history,
            has_scopes=self.scopes is not None,
        )

    def _encoded(self) -> str:
        try:
            return self.kind.signature.encode((), dict(self.args or {}))
        except InvalidArguments as error:
            problem = f'{error.problem}. Schedule "{self.name}" gives it args={dict(self.args or {})!r}'
            raise InvalidArguments(error.function, error.parameter, problem) from None


class Declarer:
    """A service of every worker, leading or not: only its own process knows its declarations."""

    def __init__(
        self,
        database: Database,
        handlers: Database,
        schema: Schema,
        emitter: Emitter,
        declared: Sequence[Declared],
    ) -> None:
        self._database = database
        self._handlers = handlers
        self._schema = schema
        self._emitter = emitter
        self._declared = {one.name: one for one in declared}
        self._left = dict(self._declared)
        self._said: dict[str, str] = {}
        self._failures = FailureLog(_log, "declaring schedules")

    async def run(self) -> None:
        while True:
            await self.once()
            await asyncio.sleep((_AGAIN if self._left else TEND).total_seconds())

    async def once(self) -> None:
        """Write what is not written yet; of the others, read the scopes that no other worker has read lately.

        Those whose scopes must be asked for come last and side by side: a slow source holds up no other.
        """
        left = list(self._left.values())
        for one in left:
            if not one.has_source:
                await self._write(one)
        due = await self._tend()
        reading = asyncio.Semaphore(_SOURCES)
        async with asyncio.TaskGroup() as group:
            for one in left:
                if one.has_source:
                    group.create_task(_within(reading, self._write, one))
            for one in due:
                group.create_task(_within(reading, self._follow, one))

    async def _write(self, one: Declared) -> None:
        if await self._tried(one, self._declare(one)):
            del self._left[one.name]

    async def _follow(self, one: Declared) -> None:
        await self._tried(one, self._read_scopes(one))

    async def _tend(self) -> list[Declared]:
        """Confirm what is still declared; answers those whose scopes are to be read."""
        names = [name for name in self._declared if name not in self._left]
        try:
            due = await self._database.run(tend(self._schema, names, pause=TEND * 5 / 6)) if names else []
        except HoldfastError as error:
            self._failed(error)
            return []
        self._failures.worked()
        return [self._declared[name] for name in due]

    async def _tried(self, one: Declared, work: Coroutine[Any, Any, None]) -> bool:
        """One that fails is reported and tried again; the others go on."""
        try:
            await work
        except ScheduleConflict as error:
            self._say(one, str(error))  # not in its row, which is another's
            return False
        except DatabaseError as error:
            if isinstance(error, StatementFailed):
                await self._tell(one, f"{type(error).__name__}: {error}")
            else:
                self._failed(error)  # an outage is not this schedule's fault
            return False
        except Exception as error:  # noqa: BLE001  # reported; a source of scopes is the user's code
            await self._tell(one, f"{type(error).__name__}: {error}")
            return False
        return True

    async def _declare(self, one: Declared) -> None:
        new = one.new()
        await self._settle_old_timing(new)
        if one.scopes is None:
            await self._put(new, Read(list(WHOLE_APP), None))
            await self._tell(one, None)
            return
        try:
            read = await self._scopes(one)
        except Exception:
            # Written all the same, with the scopes that it had; the error is reported.
            async with self._database.transaction() as transaction:
                await hold(put(self._schema, new, is_declared=True), transaction.run)
            raise
        await self._put(new, read)
        await self._tell(one, read.problem)

    async def _put(self, new: NewSchedule, read: Read) -> None:
        async with self._database.transaction() as transaction:
            await hold(put_whole(self._schema, new, read.scopes, is_declared=True), transaction.run)

    async def _settle_old_timing(self, new: NewSchedule) -> None:
        """A new timing counts from now on: what was due by the old one is decided by the old one first."""
        known = await self._database.run(find(self._schema, new.name))
        if known and not _is_same(known[0].timing, new.timing):
            planner = Planner(self._database, self._schema, self._emitter)
            await planner.catch_up(new.name)

    async def _read_scopes(self, one: Declared) -> None:
        if one.scopes is None:
            return
        read = await self._scopes(one)
        await self._database.run(set_scopes(self._schema, one.name, read.scopes))
        await self._tell(one, read.problem)

    async def _scopes(self, one: Declared) -> Read:
        assert one.scopes is not None  # noqa: S101  # asked for those that have a source
        slow = asyncio.get_running_loop().call_later(SLOW.total_seconds(), self._say_slow, one)
        try:
            given = await ask_source(one.scopes, self._handlers)
        finally:
            slow.cancel()
        return use(given, one.kind, has_args=one.has_args)

    async def _tell(self, one: Declared, problem: str | None) -> None:
        """In the log, once, and in the row of the schedule."""
        self._say(one, problem)
        try:
            await self._database.run(trouble(self._schema, one.name, problem))
        except HoldfastError as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._failures.failed(error)
        self._emitter.emit(ChoreFailed("declare", error))

    def _say_slow(self, one: Declared) -> None:
        self._emitter.emit(ScopesAwaited(one.name, SLOW))

    def _say(self, one: Declared, problem: str | None) -> None:
        if problem is not None and self._said.get(one.name) != problem:
            self._emitter.emit(ScheduleFailed(one.name, None, problem))
        self._said[one.name] = problem or ""


async def _within(
    bound: asyncio.Semaphore, work: Callable[[Declared], Coroutine[Any, Any, None]], one: Declared
) -> None:
    async with bound:
        await work(one)


def _is_same(stored: str, timing: Timing) -> bool:
    try:
        return timing_from_json(stored) == timing
    except InvalidInput:
        return False
