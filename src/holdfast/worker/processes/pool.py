"""Calls handlers in child processes: makes the calls, hands them to the children, and judges the answers."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import count
from time import monotonic
from typing import Any, Self

from holdfast.codec.result import NotBrought
from holdfast.domain.outcome import Failed
from holdfast.errors import InvalidInput
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.context import Context
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.handler_requests import EndWith
from holdfast.worker.processes.call import Call
from holdfast.worker.processes.child_process import DEATH_SECONDS, ChildAnswer
from holdfast.worker.processes.children import IDLE_SECONDS, PATIENCE_SECONDS, Children
from holdfast.worker.processes.claims_ahead import ClaimsAhead
from holdfast.worker.processes.main_script import refuse_a_second_worker
from holdfast.worker.processes.messages import CallHandler, Ended, body_of, row_values
from holdfast.worker.processes.pickles import dump, load
from holdfast.worker.processes.places import Places
from holdfast.worker.processes.reference import Reference

# From being told to stop until being killed: enough to remove a temporary file, and short beside any timeout.
GRACE_SECONDS = 0.5
# How long a child may take to start and to import a handler's module before that counts as its timeout.
START_SECONDS = 60.0
# A call that begins later is reported to the leader, which waits for longer than this past a run's timeout.
_LATE_SECONDS = 5.0

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
        limit = None if places is None else places.limit
        self._ahead = ClaimsAhead(0) if places is None else ClaimsAhead(places.limit, places.allow_ahead)
        self._postpone = postpone
        self._grace = grace
        self._children = Children(limit, idle=idle, patience=patience, on_late=self._ahead.were_late)
        self._numbers = count(1)
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
        make = self._calls(claimed, kind.function, arguments, takes_context=kind.signature.takes_context)
        return await self._run(
            make, claimed, context, kind.memory_limit, partial(self._begun, claimed), is_step=False
        )

    def _begun(self, claimed: ClaimedRun) -> None:
        claimed.call_begins()
        is_late = monotonic() - claimed.began > _LATE_SECONDS
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
        make = self._calls(claimed, function, arguments, takes_context=False)
        if self._places is None:
            return await self._run(make, claimed, context, None, on_begun, is_step=True)
        await self._places.taken()
        try:
            return await self._run(make, claimed, context, None, on_begun, is_step=True)
        finally:
            self._places.give_back()

    async def _run(
        self,
        make: Callable[[int], bytes],
        claimed: ClaimedRun,
        context: Context,
        memory_limit: int | None,
        on_begun: Callable[[], None],
        *,
        is_step: bool,
    ) -> Any:
        while True:
            claimed.check_lease()
            if not is_step:
                claimed.await_call(START_SECONDS)
            number = next(self._numbers)
            call = Call(
                number,
                claimed.run,
                make(number),
                self._loop.create_future(),
                on_begun,
                lambda text: context.progress(**json.loads(text)),
                None if is_step else partial(self._start_is_slow, claimed),
            )
            self._children.put(memory_limit, call)
            try:
                answer = await call.answer
            except asyncio.CancelledError:
                await self._stop(call, memory_limit, claimed, context)
                raise
            finally:
                if not is_step and call.has_begun:
                    self._learn(claimed, call)
            # The lease may have been renewed in the meantime.
            if not (isinstance(answer, Ended) and answer.is_too_late):
                return self._outcome(answer, context)

    def _learn(self, claimed: ClaimedRun, call: Call) -> None:
        """What the child measured, since its worker may hear of a begin and of an end at once."""
        answer = call.answer.result() if call.answer.done() and not call.answer.cancelled() else None
        if isinstance(answer, Ended):
            self._ahead.took(answer.seconds)
        elif claimed.called is not None:
            self._ahead.took(monotonic() - claimed.called)

    def _start_is_slow(self, claimed: ClaimedRun) -> None:
        self._postpone(claimed, START_SECONDS + claimed.row.lasting)

    @staticmethod
    def left_behind(claimed: ClaimedRun) -> Future[Any] | None:  # noqa: ARG004  # a child never outlives its call
        return None

    def _calls(
        self,
        claimed: ClaimedRun,
        function: Callable[..., Any],
        arguments: dict[str, Any],
        *,
        takes_context: bool,
    ) -> Callable[[int], bytes]:
        """Makes the message of a call, by its number: anew each time that it is handed to the children."""
        reference = self._references.get(function)
        if reference is None:
            reference = self._references[function] = Reference.of(function)
        try:
            pickled = dump(arguments)
        except Exception as error:
            raise InvalidInput(f"its arguments cannot be pickled for a child process: {error}") from error

        def make(number: int) -> bytes:
            return body_of(
                CallHandler(
                    number,
                    reference.values,
                    claimed.worker,
                    claimed.queue,
                    row_values(claimed.row),
                    takes_context,
                    pickled,
                    claimed.lease.believed_until,
                )
            )

        return make

    async def _stop(
        self, call: Call, memory_limit: int | None, claimed: ClaimedRun, context: Context
    ) -> None:
        """A call that no child has taken never begins. Else tell the child to stop, and kill it after a grace
        period. After a lost lease it is killed at once, since the job may already run elsewhere; likewise if
        this task is cancelled once more.
        """
        call.stop = reason = claimed.stop or Stop.SHUTDOWN
        if self._children.withdraw(memory_limit, call):
            return
        answer = call.await_again()
        call.tell_to_stop(reason)
        try:
            await asyncio.wait([answer], timeout=0 if claimed.stop is Stop.LOST else self._grace)
        finally:
            if not answer.done():
                call.kill()
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


def _keep_state(ended: Ended, context: Context) -> None:
    if ended.state is not None:
        context.state.clear()
        context.state.update(json.loads(ended.state))
