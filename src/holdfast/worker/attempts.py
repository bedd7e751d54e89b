"""Attempts: each begun with a claimed run, ended with a transition for the settler. Five steps: read the
arguments, call the handler, judge what it came to, decide what follows, settle.
"""

import asyncio
import json
import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

from holdfast.domain.backoff import from_json
from holdfast.domain.failure import Failure
from holdfast.domain.outcome import Cancelled, Failed, Outcome, Released
from holdfast.domain.outcome import Undecodable as NotDecoded
from holdfast.domain.transition import SUCCESS, Fail, Run, Transition, decide
from holdfast.errors import DatabaseError, InvalidInput, JobEnded, Undecodable
from holdfast.producer.wake_ups import LEADER
from holdfast.storage.runs import Answer, ClaimRow, Saving
from holdfast.telemetry.events import AttemptEnded, AttemptStarted, Emitter, StillRunning
from holdfast.telemetry.events import LeaseLost as LeaseWasLost
from holdfast.worker import forked_copy
from holdfast.worker.attempt_outcome import (
    NOTHING_TO_KEEP,
    failure_and_delay,
    flag_of,
    has_done_its_work,
    outcome_of_error,
    outcome_of_result,
    outcome_of_stop,
)
from holdfast.worker.callers import Caller, come_to
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.completion import Completion
from holdfast.worker.context import Context, current
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.handler_requests import HandlerRequest
from holdfast.worker.hook_caller import HookCaller
from holdfast.worker.job_kind import Hooks, Kinds, Style
from holdfast.worker.lease import Lease, NotBegun
from holdfast.worker.processes.places import Places
from holdfast.worker.settler import RunEnding, Settler
from holdfast.worker.slots import Slots
from holdfast.worker.stray_threads import StrayThreads

Complete = Callable[[Context, Any], Completion]
_PATIENCE_SECONDS = 2.0
_ON_REQUEST = (Stop.TIMEOUT, Stop.CANCEL)


class Attempts:
    """All that runs here. `claimed` holds every run from its claim until it is settled or lost."""

    def __init__(
        self,
        kinds: Kinds,
        callers: Mapping[Style, Caller],
        settler: Settler,
        *,
        slots: Slots,
        places: Places,
        emitter: Emitter,
        complete: Complete,
        wake: Callable[[str], None],
        stray_threads: StrayThreads,
        misfit_for: Callable[[int], Awaitable[timedelta | None]],
    ) -> None:
        self._kinds = kinds
        self._callers = callers
        self._settler = settler
        self._slots = slots
        self._places = places
        self._emitter = emitter
        self._complete = complete
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._new_task = _maker_of_tasks(self._loop)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._hook_caller = HookCaller(emitter)
        self._is_start_heard = True
        self.runs: dict[int, ClaimedRun] = {}
        self._stray_threads = stray_threads
        self._misfit_for = misfit_for

    def begin(self, lease: Lease, queue: str, rows: Sequence[ClaimRow]) -> None:
        """All runs of one claim, for which slots were taken."""
        self._is_start_heard = self._emitter.is_heard(AttemptStarted)
        for row in rows:
            kind = self._kinds.get(row.kind)
            if kind is None:
                self._refuse(lease, queue, row)
                continue
            claimed = self.runs[row.run] = ClaimedRun(lease.worker, queue, row, kind, lease)
            claimed.is_begun = False
            claimed.task = self._new_task(self._attempt(claimed), name=row.kind)
            if claimed.overdue_at < self._timer_at:
                self._watch(claimed)

    def context(self, claimed: ClaimedRun) -> Context:
        """What the handler and the hooks of a run are given."""
        return Context(claimed, self._save_progress, self._complete)

    def _refuse(self, lease: Lease, queue: str, row: ClaimRow) -> None:
        """Somebody changed the kind in `job` alone: it was claimed as one that this worker knows."""
        kind = replace(next(iter(self._kinds.values())), hooks=Hooks())
        claimed = self.runs[row.run] = ClaimedRun(lease.worker, queue, row, kind, lease)
        self._slots.give_back(queue)
        failure = Failure(
            f"its row in job has the kind {row.kind[:200]!r}, its row in ready another", "decode_error"
        )
        self._settler.put(RunEnding(claimed, Fail(failure), None, self.context(claimed), None, self._settled))

    def tell_to_stop(self, reason: Stop, *, worker: int | None = None) -> int:
        """Tell all runs, or those of one worker. Answers how many had not ended, and are cut short."""
        told = [claimed for claimed in self.runs.values() if worker is None or claimed.worker == worker]
        cut_short = [claimed for claimed in told if claimed.task is not None and not claimed.task.done()]
        for claimed in told:
            claimed.tell_to_stop(reason)
            if reason is Stop.LOST:
                self.runs.pop(claimed.run, None)
        return len(cut_short)

    def cancel(self, runs: list[int]) -> None:
        """Somebody wants these runs cancelled."""
        for run in runs:
            if claimed := self.runs.get(run):
                self._stop_soon(claimed, Stop.CANCEL)

    def lose(self, runs: list[int]) -> None:
        """These runs were taken away one by one: by the leader, past their timeout, or they are settled."""
        for run in runs:
            claimed = self.runs.get(run)
            if claimed is None or claimed.is_completing:
                continue
            if claimed.task is not None and not claimed.task.done():
                claimed.tell_to_stop(Stop.LOST)
                self.runs.pop(run, None)

    async def ended(self) -> None:
        """Until every attempt has handed over its ending, and every hook has run."""
        while tasks := [
            claimed.task for claimed in self.runs.values() if claimed.task and not claimed.task.done()
        ]:
            await asyncio.wait(tasks)
        await self._hook_caller.ended()

    def watch(self, claimed: ClaimedRun) -> None:
        """Its timeout has changed."""
        if claimed.overdue_at < self._timer_at:
            self._watch(claimed)

    def _watch(self, claimed: ClaimedRun) -> None:
        """One timer for the earliest timeout, whatever the number of runs."""
        if self._timer is not None:
            self._timer.cancel()
        self._wait_until(claimed.overdue_at)

    def _wait_until(self, moment: float) -> None:
        self._timer_at = moment
        self._timer = self._loop.call_later(max(moment - monotonic(), 0), self._time_out)

    def _time_out(self) -> None:
        self._timer, self._timer_at = None, math.inf
        now = monotonic()
        for claimed in list(self.runs.values()):
            if claimed.overdue_at <= now:
                self._stop_soon(claimed, Stop.TIMEOUT)
        left = [claimed.overdue_at for claimed in self.runs.values() if claimed.stop is None]
        if left:
            self._wait_until(min(left))

    def _stop_soon(self, claimed: ClaimedRun, reason: Stop) -> None:
        """Tell it, and look a little later whether it has heeded that."""
        if claimed.stop is None:
            claimed.tell_to_stop(reason)
            self._loop.call_later(_PATIENCE_SECONDS, self._say_still_running, claimed, reason)

    def _say_still_running(self, claimed: ClaimedRun, told: Stop) -> None:
        if claimed.stop is told and claimed.task is not None and not claimed.task.done():
            is_thread = claimed.kind.style == "thread"
            self._emitter.emit(StillRunning(claimed.fact, told.value, is_thread))

    async def _attempt(self, claimed: ClaimedRun) -> None:  # noqa: C901  # every way that a run can end
        claimed.is_begun = True
        context = self.context(claimed)
        if claimed.job in self._stray_threads.since:
            self._free_slot(claimed, None)
            put_off = self._stray_threads.put_off(claimed.job)
            self._settler.put(RunEnding(claimed, put_off, None, context, None, self._settled))
            return
        caller = self._callers[claimed.kind.style]
        error: BaseException | None = None
        thread: Future[Any] | None = None
        try:
            outcome, error = await self._outcome(claimed, context, caller)
            if forked_copy.is_copy:
                forked_copy.leave(error)
            if isinstance(outcome, NotDecoded):
                outcome = await self._dated(claimed, outcome)
            thread = caller.left_behind(claimed)
            if thread is not None and not context._is_completed:  # noqa: SLF001  # as below
                await self._stray_threads.end(claimed, thread)
                if has_done_its_work(claimed, context, thread):
                    outcome, error = outcome_of_result(claimed, thread.result())
        except NotBegun as late:
            # The lease keeper will say so of all runs, if it has not yet; this one is not settled before.
            claimed.stop = Stop.LOST
            outcome, error = Released(), late
        except Exception as ours:  # noqa: BLE001  # not the handler's: still an end, or it would be claimed for ever
            outcome, error = Failed(from_error(ours)), ours
        finally:
            self._free_slot(claimed, thread)
        if context._is_completed:  # noqa: SLF001  # it was settled in the handler's own transaction
            if (
                thread is not None and claimed.kind.style == "thread"
            ):  # what was cut short is our waiting for it
                error = thread.exception() if thread.done() else None
            self._after_own_commit(claimed, context, error)
            return
        if claimed.stop is Stop.LOST:
            is_begun = not isinstance(error, NotBegun)
            doing = f"settle as {type(outcome).__name__.lower()}" if is_begun else "begin"
            self._say_lost(claimed, context, doing)
            return
        self._settler.put(self._ending(claimed, context, outcome, error))

    def _ending(
        self, claimed: ClaimedRun, context: Context, outcome: Outcome, error: BaseException | None
    ) -> RunEnding:
        state = None
        try:
            state = None if isinstance(outcome, Cancelled) else context.saved_state()
        except Exception as unstorable:  # noqa: BLE001  # what is in it is the user's, and may raise anything
            if isinstance(outcome, Failed):
                context.log.warning("ctx.state is not kept: %s", unstorable)
            else:
                told = InvalidInput(f"ctx.state cannot be kept: {unstorable}: give it what JSON can hold")
                told.__cause__ = unstorable
                outcome, error = Failed(from_error(told)), told
        return RunEnding(claimed, self._decided(claimed, outcome), state, context, error, self._settled)

    async def _outcome(
        self, claimed: ClaimedRun, context: Context, caller: Caller
    ) -> tuple[Outcome, BaseException | None]:
        try:
            arguments = claimed.kind.signature.decode(claimed.row.args)
        except Undecodable as error:
            return NotDecoded(from_error(error, "decode_error")), error
        current.set(context)
        if claimed.is_told_to_stop:  # before its first step, so there was nothing to cancel yet
            return outcome_of_stop(claimed, early := asyncio.CancelledError()), early
        claimed.check_lease()
        if self._is_start_heard:
            self._emitter.emit(AttemptStarted(claimed.fact))
        try:
            if claimed.kind.hooks.on_start:
                await self._hook_caller.call("on_start", claimed, claimed.kind.hooks.on_start, context)
                claimed.check_lease()
            result = await caller.call(claimed, context, arguments)
            if result is not None:
                result = await come_to(result)
        except asyncio.CancelledError as error:
            return outcome_of_stop(claimed, error), error
        except NotBegun:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a handler raises ends its attempt, not us
            is_stopped = claimed.stop in _ON_REQUEST and not isinstance(error, HandlerRequest)
            return outcome_of_stop(claimed, error) if is_stopped else outcome_of_error(claimed, error), error
        return outcome_of_result(claimed, result)

    async def _dated(self, claimed: ClaimedRun, misfit: NotDecoded) -> NotDecoded:
        """With how long it has not fitted. What cannot be told now is asked of the next run."""
        with suppress(DatabaseError, asyncio.CancelledError):
            return NotDecoded(misfit.failure, await self._misfit_for(claimed.job) or timedelta())
        return misfit

    @staticmethod
    def _decided(claimed: ClaimedRun, outcome: Outcome) -> Transition:
        if outcome is NOTHING_TO_KEEP:
            return SUCCESS  # what most runs come to
        row = claimed.row
        run = Run(row.attempt, row.max_attempts, from_json(row.backoff))
        return decide(run, outcome, random.random())  # noqa: S311  # spreads load

    def _settled(self, ending: RunEnding, answer: Answer, outcome: str | None) -> None:
        claimed = ending.claimed
        self._forget(claimed)
        if outcome == "succeeded":
            flag = flag_of(ending.transition)
            self._say_succeeded(claimed, ending.context, flag)
        elif answer == "lost":
            doing = f"settle as {type(ending.transition).__name__.lower()}"
            self._say_lost(claimed, ending.context, doing)
        elif outcome is not None:
            self._say_ended(claimed, ending.context, ending.transition, outcome, ending.error)

    def _forget(self, claimed: ClaimedRun) -> None:
        """Its task knows its context, which knows it: left together, only the garbage collector would find
        them, and it would have to for every job.
        """
        self.runs.pop(claimed.run, None)
        claimed.task = None

    def _after_own_commit(self, claimed: ClaimedRun, context: Context, error: BaseException | None) -> None:
        self._forget(claimed)
        if error is not None:
            context.log.error(
                "raised after ctx.transaction() had completed the job; it is not tried again", exc_info=error
            )
        outcome = context._own_outcome  # noqa: SLF001  # as above
        if outcome == "succeeded":
            own = context._own_result  # noqa: SLF001  # as above
            self._say_succeeded(claimed, context, None if own is None else own.flag)
        else:
            waiting, failure = context._own_wait  # noqa: SLF001  # as above
            next_step = context._own_next_step  # noqa: SLF001  # as above
            self._emitter.emit(
                AttemptEnded(
                    claimed.fact, outcome, claimed.took, failure, waiting=waiting, next_step=next_step
                )
            )
            self._wake(LEADER)

    def _say_succeeded(self, claimed: ClaimedRun, context: Context, flag: str | None) -> None:
        """With the flag of a result that was dropped, which is said in any case."""
        if flag is not None or self._emitter.is_heard(AttemptEnded):
            self._emitter.emit(AttemptEnded(claimed.fact, "succeeded", claimed.took, flag=flag))
        if claimed.kind.hooks.on_success:
            self._hook_caller.soon(claimed, ("on_success", claimed.kind.hooks.on_success, (context,)))

    def _say_ended(
        self,
        claimed: ClaimedRun,
        context: Context,
        transition: Transition,
        outcome: str,
        error: BaseException | None,
    ) -> None:
        hooks = claimed.kind.hooks
        if outcome in ("retried", "snoozed"):
            self._wake(LEADER)
        elif outcome == "released":
            self._wake(claimed.queue)
        failure, delay = failure_and_delay(transition)
        goes_on = outcome in ("retried", "snoozed")
        self._emitter.emit(
            AttemptEnded(claimed.fact, outcome, claimed.took, failure, delay if goes_on else None)
        )
        told = error if error is not None else _ended(claimed.job, outcome, failure)
        self._hook_caller.soon(
            claimed, *((name, hook, (context, told)) for name, hook in hooks.told_of(outcome))
        )

    def _say_lost(self, claimed: ClaimedRun, context: Context, doing: str) -> None:
        self._forget(claimed)
        self._emitter.emit(LeaseWasLost(claimed.fact, doing))
        self._hook_caller.soon(claimed, ("on_lease_lost", claimed.kind.hooks.on_lease_lost, (context,)))

    def _save_progress(self, claimed: ClaimedRun, text: str) -> None:
        saving = Saving(claimed.worker, claimed.job, claimed.run, progress=text)
        self._loop.call_soon_threadsafe(self._settler.put_saving, saving)

    def _free_slot(self, claimed: ClaimedRun, thread: "Future[Any] | None") -> None:
        if claimed.kind.style == "process":
            self._places.give_back()
        if thread is None or thread.done():
            self._slots.give_back(claimed.queue)
        else:
            self._stray_threads.remember(claimed, thread, self._slots.give_back)


def _ended(job: int, outcome: str, failure: Failure | None) -> JobEnded:
    """For the hooks of a job that was ended without anything having been raised."""
    return JobEnded(job=job, state=outcome, error=json.loads(failure.to_json()) if failure else {})


def _maker_of_tasks(loop: asyncio.AbstractEventLoop) -> Callable[..., "asyncio.Task[None]"]:
    """As `loop.create_task`; but a name that is given at once saves making one up, a fifth of the price."""
    return loop.create_task if loop.get_task_factory() else partial(asyncio.Task, loop=loop)
