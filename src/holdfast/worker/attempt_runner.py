"""One attempt, in five steps: read the arguments, call the handler, judge what it came to, decide what
follows, hand that to the settler.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.codec.result import NOTHING_RETURNED
from holdfast.domain.backoff import from_json
from holdfast.domain.outcome import AttemptOutcome, Cancelled, Failed, Released, Unreadable
from holdfast.domain.states import RunOutcome
from holdfast.domain.transition import SUCCESS, CancelJob, Run, Transition, decide
from holdfast.errors import DatabaseError, Undecodable
from holdfast.worker import forked_copy
from holdfast.worker.attempt_outcome import (
    as_stored,
    has_done_its_work,
    outcome_of_error,
    outcome_of_result,
    outcome_of_stop,
    superseded_by,
)
from holdfast.worker.attempt_reporter import AttemptReporter
from holdfast.worker.callers import Caller, come_to
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.context import Context
from holdfast.worker.current_run import current_run, log_of
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.handler_requests import HandlerRequest, error_behind
from holdfast.worker.job_kind import Style
from holdfast.worker.lease import NotBegun
from holdfast.worker.log_keeper import LogKeeper
from holdfast.worker.middleware import run_within
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
        log_keeper: LogKeeper,
    ) -> None:
        self._callers = callers
        self._settler = settler
        self._reporter = reporter
        self._slots = slots
        self._places = places
        self._stray_threads = stray_threads
        self._misfit_for = misfit_for
        self._context = context
        self._log_keeper = log_keeper
        self.is_start_heard = True

    async def run(self, claimed: ClaimedRun) -> None:
        claimed.is_begun = True
        context = self._context(claimed)
        uncalled = self.uncalled(claimed)
        if uncalled is not None:
            self._free_slot(claimed, None)
            self._settler.put(RunEnding.of(claimed, uncalled, context, self._reporter.settled))
            return
        caller = self._callers[claimed.kind.style]
        error: BaseException | None = None
        thread: Future[Any] | None = None
        try:
            outcome, error = await self._outcome(claimed, context, caller)
            if forked_copy.is_copy:
                forked_copy.leave(error)
            if isinstance(outcome, Unreadable):
                outcome = await self.with_duration(claimed, outcome)
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
        ending = self.ending(claimed, context, outcome, error)
        if claimed.lines is not None:
            await self._log_keeper.end(claimed, told_by(claimed, ending))
        if claimed.committed is not None:
            error = _raised_after_its_end(claimed, thread, error)
        self.hand_over(claimed, context, ending, outcome, error)

    def ending(
        self, claimed: ClaimedRun, context: Context, outcome: AttemptOutcome, error: BaseException | None
    ) -> RunEnding | None:
        """What is to be settled; None if there is nothing: its own commit has ended it, or it has lost its
        lease.
        """
        if claimed.committed is not None or claimed.stop is Stop.LOST:
            return None
        return self._decided(claimed, context, outcome, error)

    def hand_over(
        self,
        claimed: ClaimedRun,
        context: Context,
        ending: RunEnding | None,
        outcome: AttemptOutcome,
        error: BaseException | None,
    ) -> None:
        """To the settler, or to those who are told what has become of the run."""
        if ending is not None:
            self._settler.put(ending)
        elif claimed.committed is not None:
            self._reporter.committed(claimed, context, claimed.committed, error)
        else:
            is_begun = not isinstance(error, NotBegun)
            doing = f"settle as {type(outcome).__name__.lower()}" if is_begun else "begin"
            self._reporter.lost(claimed, context, doing)

    def uncalled(self, claimed: ClaimedRun) -> Transition | None:
        """What becomes of a run whose handler must not be called."""
        if claimed.job in self._stray_threads.since:
            return self._stray_threads.put_off(claimed.job)
        if claimed.row.newer is not None:
            return CancelJob(superseded_by(claimed.row.newer))
        return None

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
        if claimed.kind.keep_logs != "never":
            self._log_keeper.begin(claimed)
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
            result = await _called(claimed, context, caller, arguments)
            if result is not None:
                result = await come_to(result)
        except asyncio.CancelledError as error:
            return outcome_of_stop(claimed, error), error
        except NotBegun:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a handler raises ends its attempt, not the worker
            is_stopped = claimed.stop in _ON_REQUEST and not isinstance(error, HandlerRequest)
            judge = outcome_of_stop if is_stopped else outcome_of_error
            return judge(claimed, error), error_behind(error)
        return outcome_of_result(claimed, result)

    async def with_duration(self, claimed: ClaimedRun, misfit: Unreadable) -> Unreadable:
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


def told_by(claimed: ClaimedRun, ending: RunEnding | None) -> RunOutcome | None:
    """How the run ended, for its log lines; None: it was taken away."""
    if ending is not None:
        return ending.transition.outcome
    end = claimed.committed
    if end is None:
        return None
    return end.outcome if end.failure is None else "retried"


def _raised_after_its_end(
    claimed: ClaimedRun, thread: "Future[Any] | None", error: BaseException | None
) -> BaseException | None:
    """What the handler raised after its own commit had ended the run."""
    if thread is None or claimed.kind.style != "thread":
        return error
    # Only our waiting for it was cut short.
    return thread.exception() if thread.done() else None


def _called(
    claimed: ClaimedRun, context: Context, caller: Caller, arguments: dict[str, Any]
) -> Awaitable[Any]:
    if not claimed.kind.middleware.running:
        return caller.call(claimed, context, arguments)
    return run_within(claimed, context, partial(caller.call, claimed, context, arguments))
