"""Hands runs to child processes, one run at a time to each.
Runs that wait for a child wait here and not in a child: its death is that of one run, and the child that is
free first takes the next.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from time import monotonic
from typing import Any, Self

from holdfast.codec.result import NotBrought
from holdfast.domain.outcome import Failed
from holdfast.errors import InvalidInput, ProcessDied
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.context import Context
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.handler_requests import EndWith
from holdfast.worker.processes.child_process import DEATH_SECONDS, ChildAnswer, ChildProcess
from holdfast.worker.processes.children import IDLE_SECONDS, Children
from holdfast.worker.processes.main_script import refuse_a_second_worker
from holdfast.worker.processes.messages import CallHandler, Ended
from holdfast.worker.processes.pickles import dump, load
from holdfast.worker.processes.places import Places
from holdfast.worker.processes.reference import Reference
from holdfast.worker.processes.turns import PATIENCE_SECONDS, Turns

# From being told to stop until being killed: enough to remove a temporary file, and short beside any timeout.
GRACE_SECONDS = 0.5
# How long a child may take to start and to import a handler's module before that counts as its timeout.
START_SECONDS = 60.0
# A start that takes longer is reported to the leader, which waits for longer than this past a run's timeout.
_SLOW_SECONDS = 5.0


Postpone = Callable[[ClaimedRun, float | None], None]
"""Called when a run's timeout begins. The seconds are given if the leader has to know the new timeout."""


def _nothing(claimed: ClaimedRun, seconds: float | None) -> None: ...


class Processes:
    """A caller whose handlers a timeout really stops. No child is left when its `async with` block ends.

    A job comes with a place that its claim has taken; a step of a flow waits for a place.
    """

    def __init__(
        self,
        places: Places | None = None,
        *,
        grace: float = GRACE_SECONDS,
        idle: float = IDLE_SECONDS,
        patience: float = PATIENCE_SECONDS,
        postpone: Postpone = _nothing,
    ) -> None:
        self._places = places
        self._turns = None if places is None else Turns(places.limit, places.allow_ahead, patience=patience)
        self._postpone = postpone
        self._grace = grace
        self._children = Children(None if places is None else places.limit, idle)
        self._references: dict[Callable[..., Any], Reference] = {}

    async def __aenter__(self) -> Self:
        refuse_a_second_worker()
        self._loop = asyncio.get_running_loop()
        await self._children.__aenter__()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._children.__aexit__()

    async def call(self, claimed: ClaimedRun, context: Context, arguments: dict[str, Any]) -> Any:
        """What the handler returned or raised in its process, or ProcessDied."""
        kind = claimed.kind
        call = self._call(claimed, kind.function, arguments, takes_context=kind.signature.takes_context)
        claimed.await_call(START_SECONDS)
        if self._turns is None:
            return await self._run(call, claimed, context, kind.memory_limit, partial(self._begun, claimed))
        await self._turns.taken()
        try:
            return await self._run(call, claimed, context, kind.memory_limit, partial(self._begun, claimed))
        finally:
            if claimed.called is not None:
                self._turns.took(monotonic() - claimed.called)
            self._turns.give_back()

    def _begun(self, claimed: ClaimedRun) -> None:
        claimed.call_begins()
        is_late = monotonic() - claimed.began > _SLOW_SECONDS
        self._postpone(claimed, claimed.row.lasting if is_late else None)

    async def call_function(
        self,
        claimed: ClaimedRun,
        context: Context,
        function: Callable[..., Any],
        arguments: dict[str, Any],
        on_begun: Callable[[], None] = lambda: None,
    ) -> Any:
        """The same for a function other than the job's own, such as a step of a flow."""
        call = self._call(claimed, function, arguments, takes_context=False)
        if self._places is None or self._turns is None:
            return await self._run(call, claimed, context, None, on_begun, is_step=True)
        await self._places.taken()
        try:
            await self._turns.taken()
            try:
                return await self._run(call, claimed, context, None, on_begun, is_step=True)
            finally:
                self._turns.give_back()
        finally:
            self._places.give_back()

    async def _run(
        self,
        call: CallHandler,
        claimed: ClaimedRun,
        context: Context,
        memory_limit: int | None,
        on_begun: Callable[[], None],
        *,
        is_step: bool = False,
    ) -> Any:
        while True:
            await self._children.make_room(memory_limit)
            claimed.check_lease()
            call = call._replace(believed_until=claimed.lease.believed_until)
            child = self._children.take(memory_limit)
            # A child that has run the function before begins at once.
            is_slow = not is_step and call.reference not in child.known
            slow = self._loop.call_later(_SLOW_SECONDS, self._start_is_slow, claimed) if is_slow else None
            try:
                answer = await self._answered(child, call, claimed, context, _then(slow, on_begun))
            finally:
                if slow is not None:
                    slow.cancel()
                self._children.give_back(child)
            if isinstance(answer, Ended) and answer.is_too_late:
                continue
            # A child that died while it was idle, or just then, has not cost the job its attempt.
            if not (isinstance(answer, ProcessDied) and child.runs > 1 and not child.has_begun):
                return self._outcome(answer, context)

    def _start_is_slow(self, claimed: ClaimedRun) -> None:
        self._postpone(claimed, START_SECONDS + claimed.row.lasting)

    @staticmethod
    def left_behind(claimed: ClaimedRun) -> Future[Any] | None:  # noqa: ARG004  # a child never outlives its call
        return None

    def _call(
        self,
        claimed: ClaimedRun,
        function: Callable[..., Any],
        arguments: dict[str, Any],
        *,
        takes_context: bool,
    ) -> CallHandler:
        reference = self._references.get(function)
        if reference is None:
            reference = self._references[function] = Reference.of(function)
        try:
            pickled = dump(arguments)
        except Exception as error:
            raise InvalidInput(f"its arguments cannot be pickled for a child process: {error}") from error
        return CallHandler(
            reference,
            claimed.worker,
            claimed.queue,
            claimed.row,
            takes_context,
            pickled,
            claimed.lease.believed_until,
        )

    async def _answered(
        self,
        child: ChildProcess,
        call: CallHandler,
        claimed: ClaimedRun,
        context: Context,
        on_begun: Callable[[], None],
    ) -> ChildAnswer:
        answer = child.begin(call, lambda text: context.progress(**json.loads(text)), on_begun)
        try:
            return await answer
        except asyncio.CancelledError:
            await self._stop(child, child.await_again(), claimed, context)
            raise

    async def _stop(
        self, child: ChildProcess, answer: asyncio.Future[ChildAnswer], claimed: ClaimedRun, context: Context
    ) -> None:
        """Tell the child to stop, and kill it after a grace period. After a lost lease it is killed at once,
        since the job may already run elsewhere; likewise if this task is cancelled once more.
        """
        child.tell_to_stop(claimed.stop or Stop.SHUTDOWN)
        try:
            await asyncio.wait([answer], timeout=0 if claimed.stop is Stop.LOST else self._grace)
        finally:
            if not answer.done():
                child.kill()
        if not answer.done():
            await asyncio.wait([answer], timeout=DEATH_SECONDS)
        elif isinstance(ended := answer.result(), Ended):
            _keep_state(ended, context)

    @staticmethod
    def _outcome(answer: ChildAnswer, context: Context) -> Any:
        if not isinstance(answer, Ended):
            raise answer
        _keep_state(answer, context)
        if answer.raised is not None:
            error = answer.raised.rebuilt()
            if answer.is_misconfigured:
                raise EndWith(Failed(from_error(error), is_retryable=False)) from error
            raise error
        lost = answer.lost
        if answer.result is not None:
            try:
                return load(answer.result)
            except Exception as error:  # noqa: BLE001  # a user's class may do anything
                lost = f"it cannot be unpickled here ({type(error).__name__}: {error})"
        context.log.warning("its result stays in the child process: %s", lost)
        return NotBrought("result_too_large" if answer.is_too_large else "result_unencodable")


def _then(slow: asyncio.TimerHandle | None, on_begun: Callable[[], None]) -> Callable[[], None]:
    if slow is None:
        return on_begun

    def begun() -> None:
        slow.cancel()
        on_begun()

    return begun


def _keep_state(ended: Ended, context: Context) -> None:
    if ended.state is not None:
        context.state.clear()
        context.state.update(json.loads(ended.state))
