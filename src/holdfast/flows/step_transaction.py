"""`flow.transaction(…)`: the user's own writes and the step's checkpoint in one fenced commit."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from holdfast.domain.flow_path import PathPlace
from holdfast.errors import LeaseLost
from holdfast.flows.enclosing_step import inside
from holdfast.flows.recorder import lost
from holdfast.flows.replay import Replay
from holdfast.flows.step_runner import kept_failure
from holdfast.flows.step_values import ANYTHING, Typed
from holdfast.postgres.borrowed import run_on
from holdfast.postgres.borrowed.outage import has_met_outage
from holdfast.postgres.database import Database
from holdfast.storage.flows import checkpoint
from holdfast.worker.committing_block import committing
from holdfast.worker.handler_requests import Fail, HandlerRequest

if TYPE_CHECKING:
    import psycopg


class StepTransaction:
    """Entered by `async with`. The checkpoint is the last statement before the commit, so the fence is
    checked when the writes are done, and its lock lasts no longer than the commit.
    """

    def __init__(
        self,
        replay: Replay,
        name: str,
        database: Database,
        connection: object = None,
        *,
        is_new: bool = False,
    ) -> None:
        self._replay = replay
        self._is_new = is_new
        self._name = name
        self._database = database
        self._connection: Any = connection
        self._stack = AsyncExitStack()
        self._place = PathPlace()
        self._is_done = False
        self._value: str | None = None
        self._typed: Typed = ANYTHING

    async def __aenter__(self) -> "psycopg.AsyncConnection[Any] | None":
        """The connection; None if an earlier run has committed this: then there is nothing left to do."""
        record, self._place = await self._replay.arrive(self._name, "transaction", is_new=self._is_new)
        if record is not None and record.is_done:
            if record.error is not None:
                raise kept_failure(record)
            self._is_done, self._value = True, record.value
            return None
        self._replay.claimed.met_outage = False
        try:
            await self._begin()
        except BaseException as error:
            self._replay.claimed.met_outage = has_met_outage(error)
            await self._roll_back(error)
            raise
        connection: psycopg.AsyncConnection[Any] = self._connection
        return connection

    async def _begin(self) -> None:
        self._replay.check_lease()
        block = committing(self._connection, self._database, self._write, self._met_outage)
        self._connection = await self._stack.enter_async_context(block)
        self._stack.enter_context(inside(self._replay, self._name))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_done:
            return
        if error is not None:
            await self._roll_back(error)
            return
        try:
            await self._stack.aclose()
        except Exception as failure:
            self._replay.claimed.met_outage = has_met_outage(failure)
            await self._failed(failure)
            raise

    async def _roll_back(self, error: BaseException) -> None:
        try:
            await self._stack.__aexit__(type(error), error, error.__traceback__)
        except Exception as worse:
            if isinstance(error, Exception):
                await self._failed(worse)
            raise
        if isinstance(error, Exception):
            await self._failed(error)

    async def _failed(self, error: Exception) -> None:
        """StepFailed, which the flow may catch: kept then, as a step's is. Snooze and Cancel are none."""
        self._replay.path.check()
        if isinstance(error, Fail) or not isinstance(error, (HandlerRequest, LeaseLost)):
            await self._replay.fail(self._name, "transaction", error, place=self._place)

    def _met_outage(self) -> None:
        """The block has failed, and so has its connection."""
        self._replay.claimed.met_outage = True

    async def _write(self, connection: object) -> None:
        replay = self._replay
        replay.path.check()
        writing = replay.writing(self._name, "transaction", self._value, self._place)
        if not await run_on(connection, checkpoint(replay.recorder.schema, [writing])):
            raise lost(replay.fence, f'commit "{self._name}"')

    async def of(
        self, function: Callable[..., Awaitable[Any]], typed: Typed, *args: Any, **kwargs: Any
    ) -> Any:
        """Run the function with the connection as its first argument; what it gives is kept, too."""
        value = None
        async with self as connection:
            if connection is not None:
                value = await function(connection, *args, **kwargs)
                self._value = typed.encode(f'what "{self._name}" gave', value)
        return typed.decode(f'what "{self._name}" gave', self._value) if self._is_done else value
