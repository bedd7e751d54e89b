"""One attempt, in five steps: read the arguments, call the handler, judge what it came to, decide what
follows, hand that to the settler.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from typing import Any

from holdfast.codec.result import NOTHING_RETURNED
from holdfast.domain.backoff import from_json
from holdfast.domain.outcome import AttemptOutcome, Cancelled, Failed, Released, Unreadable
from holdfast.domain.transition import SUCCESS, Run, decide
from holdfast.errors import DatabaseError, Undecodable
from holdfast.worker import forked_copy
from holdfast.worker.attempt_outcome import (
    as_stored,
    has_done_its_work,
    outcome_of_error,
    outcome_of_result,
    outcome_of_stop,
)
from holdfast.worker.attempt_reporter import AttemptReporter
from holdfast.worker.callers import Caller, come_to
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.context import Context
from holdfast.worker.current_run import current_run, log_of
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.handler_requests import HandlerRequest
from holdfast.worker.job_kind import Style
from holdfast.worker.lease import NotBegun
from holdfast.worker.processes.places import Places
from holdfast.worker.settler import RunEnding, Settler
from holdfast.worker.slots import Slots
from holdfast.worker.state_and_progress import state_text, unstorable_state
from holdfast.worker.stray_threads import StrayThreads

_ON_REQUEST = (Stop.TIMEOUT, Stop.CANCEL)


class AttemptRunner:
    """`is_start_heard` says whether a reader wants to know of starts: asked once for each claim."""

    def __init__(
        self,
        callers: Mapping[Style, Caller],
        settler: Settler,
        reporter: AttemptReporter,
        *,
        slots: Slots,
        places: Places,
        stray_threads: StrayThreads,
        misfit_for: Callable[[int], Awaitable[timedelta | None]],
        context: Callable[[ClaimedRun], Context],
    ) -> None:
        self._callers = callers
        self._settler = settler
        self._reporter = reporter
        self._slots = slots
        self._places = places
        self._stray_threads = stray_threads
        self._misfit_for = misfit_for
        self._context = context
        self.is_start_heard = True

    async def run(self, claimed: ClaimedRun) -> None:  # noqa: C901  # every way that a run can end
        claimed.is_begun = True
        context = self._context(claimed)
        if claimed.job in self._stray_threads.since:
            self._free_slot(claimed, None)
            put_off = self._stray_threads.put_off(claimed.job)
            self._settler.put(RunEnding.of(claimed, put_off, context, self._reporter.settled))
            return
        caller = self._callers[claimed.kind.style]
        error: BaseException | None = None
        thread: Future[Any] | None = None
        try:
            outcome, error = await self._outcome(claimed, context, caller)
            if forked_copy.is_copy:
                forked_copy.leave(error)
            if isinstance(outcome, Unreadable):
                outcome = await self._with_duration(claimed, outcome)
            thread = caller.left_behind(claimed)
            if thread is not None and claimed.committed is None:
                await self._stray_threads.end(claimed, thread)
                if has_done_its_work(claimed, thread):
                    outcome, error = outcome_of_result(claimed, thread.result())
        except NotBegun as late:
            # The lease keeper will say this of all runs, if it has not yet. Until then nothing is settled.
            claimed.stop = Stop.LOST
            outcome, error = Released(), late
        except Exception as ours:  # noqa: BLE001  # not the handler's, but still an end: the run must not stay for ever
            outcome, error = Failed(from_error(ours)), ours
        finally:
            self._free_slot(claimed, thread)
        if claimed.committed is not None:
            if thread is not None and claimed.kind.style == "thread":  # only our waiting for it was cut short
                error = thread.exception() if thread.done() else None
            self._reporter.committed(claimed, context, claimed.committed, error)
        elif claimed.stop is Stop.LOST:
            is_begun = not isinstance(error, NotBegun)
            doing = f"settle as {type(outcome).__name__.lower()}" if is_begun else "begin"
            self._reporter.lost(claimed, context, doing)
        else:
            self._settler.put(self._decided(claimed, context, outcome, error))

    def _decided(
        self, claimed: ClaimedRun, context: Context, outcome: AttemptOutcome, error: BaseException | None
    ) -> RunEnding:
        if outcome is NOTHING_RETURNED and claimed.state is None:  # how most runs end
            return RunEnding.of(claimed, SUCCESS, context, self._reporter.settled)
        state = None
        try:
            if claimed.state is not None and not isinstance(outcome, Cancelled):
                state = state_text(claimed.state)
        except Exception as problem:  # noqa: BLE001  # what is in it is the user's, and may raise anything
            if isinstance(outcome, Failed):
                log_of(claimed).warning("ctx.state was not stored: %s", problem)
            else:
                error = unstorable_state(problem)
                outcome = Failed(from_error(error))
        row = claimed.row
        run = Run(row.attempt, row.max_attempts, from_json(row.backoff))
        outcome = as_stored(claimed, outcome)
        transition = decide(run, outcome, random.random())  # noqa: S311  # spreads load
        return RunEnding.of(claimed, transition, context, self._reporter.settled, state, error)

    async def _outcome(
        self, claimed: ClaimedRun, context: Context, caller: Caller
    ) -> tuple[AttemptOutcome, BaseException | None]:
        try:
            arguments = claimed.kind.signature.decode(claimed.row.args)
        except Undecodable as error:
            return Unreadable(from_error(error, "decode_error")), error
        current_run.set(claimed)
        stop = claimed.stop
        if stop is not None:  # before its first step, so there was nothing to cancel yet
            return outcome_of_stop(claimed, early := asyncio.CancelledError()), early
        claimed.lease.check(claimed.job, claimed.run, "begin")
        if self.is_start_heard:
            self._reporter.started(claimed)
        try:
            if claimed.kind.hooks.on_start:
                await self._reporter.call_on_start(claimed.kind.hooks.on_start, claimed, context)
                claimed.check_lease()
            result = await caller.call(claimed, context, arguments)
            if result is not None:
                result = await come_to(result)
        except asyncio.CancelledError as error:
            return outcome_of_stop(claimed, error), error
        except NotBegun:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a handler raises ends its attempt, not the worker
            is_stopped = claimed.stop in _ON_REQUEST and not isinstance(error, HandlerRequest)
            return outcome_of_stop(claimed, error) if is_stopped else outcome_of_error(claimed, error), error
        return outcome_of_result(claimed, result)

    async def _with_duration(self, claimed: ClaimedRun, misfit: Unreadable) -> Unreadable:
        """Adds for how long the stored arguments have not fitted. If the database cannot tell now, the next
        run asks again.
        """
        with suppress(DatabaseError, asyncio.CancelledError):
            return Unreadable(misfit.failure, await self._misfit_for(claimed.job) or timedelta())
        return misfit

    def _free_slot(self, claimed: ClaimedRun, thread: "Future[Any] | None") -> None:
        if claimed.kind.style == "process":
            self._places.give_back()
        if thread is None or thread.done():
            self._slots.give_back(claimed.queue)
        else:
            self._stray_threads.remember(claimed, thread, self._slots.give_back)
