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
from holdfast.producer.notifier import LEADER
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
    """All that runs here. `held` holds every run from its claim until it is settled or lost."""

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
        self.held: dict[int, ClaimedRun] = {}
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
            held = self.held[row.run] = ClaimedRun(lease.worker, queue, row, kind, lease)
            held.is_begun = False
            held.task = self._new_task(self._attempt(held), name=row.kind)
            if held.overdue_at < self._timer_at:
                self._watch(held)

    def context(self, held: ClaimedRun) -> Context:
        """What the handler and the hooks of a run are given."""
        return Context(held, self._save_progress, self._complete)

    def _refuse(self, lease: Lease, queue: str, row: ClaimRow) -> None:
        """Somebody changed the kind in `job` alone: it was claimed as one that this worker knows."""
        kind = replace(next(iter(self._kinds.values())), hooks=Hooks())
        held = self.held[row.run] = ClaimedRun(lease.worker, queue, row, kind, lease)
        self._slots.give_back(queue)
        failure = Failure(
            f"its row in job has the kind {row.kind[:200]!r}, its row in ready another", "decode_error"
        )
        self._settler.put(RunEnding(held, Fail(failure), None, self.context(held), None, self._settled))

    def tell_to_stop(self, reason: Stop, *, worker: int | None = None) -> int:
        """Tell all runs, or those of one worker. Answers how many had not ended, and are cut short."""
        told = [held for held in self.held.values() if worker is None or held.worker == worker]
        cut_short = [held for held in told if held.task is not None and not held.task.done()]
        for held in told:
            held.tell_to_stop(reason)
            if reason is Stop.LOST:
                self.held.pop(held.run, None)
        return len(cut_short)

    def cancel(self, runs: list[int]) -> None:
        """Somebody wants these runs cancelled."""
        for run in runs:
            if held := self.held.get(run):
                self._stop_soon(held, Stop.CANCEL)

    def lose(self, runs: list[int]) -> None:
        """These runs were taken away one by one: by the leader, past their timeout, or they are settled."""
        for run in runs:
            held = self.held.get(run)
            if held is None or held.is_completing:
                continue
            if held.task is not None and not held.task.done():
                held.tell_to_stop(Stop.LOST)
                self.held.pop(run, None)

    async def ended(self) -> None:
        """Until every attempt has handed over its ending, and every hook has run."""
        while tasks := [held.task for held in self.held.values() if held.task and not held.task.done()]:
            await asyncio.wait(tasks)
        await self._hook_caller.ended()

    def watch(self, held: ClaimedRun) -> None:
        """Its timeout has changed."""
        if held.overdue_at < self._timer_at:
            self._watch(held)

    def _watch(self, held: ClaimedRun) -> None:
        """One timer for the earliest timeout, whatever the number of runs."""
        if self._timer is not None:
            self._timer.cancel()
        self._wait_until(held.overdue_at)

    def _wait_until(self, moment: float) -> None:
        self._timer_at = moment
        self._timer = self._loop.call_later(max(moment - monotonic(), 0), self._time_out)

    def _time_out(self) -> None:
        self._timer, self._timer_at = None, math.inf
        now = monotonic()
        for held in list(self.held.values()):
            if held.overdue_at <= now:
                self._stop_soon(held, Stop.TIMEOUT)
        left = [held.overdue_at for held in self.held.values() if held.stop is None]
        if left:
            self._wait_until(min(left))

    def _stop_soon(self, held: ClaimedRun, reason: Stop) -> None:
        """Tell it, and look a little later whether it has heeded that."""
        if held.stop is None:
            held.tell_to_stop(reason)
            self._loop.call_later(_PATIENCE_SECONDS, self._say_still_running, held, reason)

    def _say_still_running(self, held: ClaimedRun, told: Stop) -> None:
        if held.stop is told and held.task is not None and not held.task.done():
            is_thread = held.kind.style == "thread"
            self._emitter.emit(StillRunning(held.fact, told.value, is_thread))

    async def _attempt(self, held: ClaimedRun) -> None:  # noqa: C901  # every way that a run can end
        held.is_begun = True
        context = self.context(held)
        if held.job in self._stray_threads.since:
            self._free_slot(held, None)
            put_off = self._stray_threads.put_off(held.job)
            self._settler.put(RunEnding(held, put_off, None, context, None, self._settled))
            return
        caller = self._callers[held.kind.style]
        error: BaseException | None = None
        thread: Future[Any] | None = None
        try:
            outcome, error = await self._outcome(held, context, caller)
            if forked_copy.is_copy:
                forked_copy.leave(error)
            if isinstance(outcome, NotDecoded):
                outcome = await self._dated(held, outcome)
            thread = caller.left_behind(held)
            if thread is not None and not context._is_completed:  # noqa: SLF001  # as below
                await self._stray_threads.end(held, thread)
                if has_done_its_work(held, context, thread):
                    outcome, error = outcome_of_result(held, thread.result())
        except NotBegun as late:
            # The lease keeper will say so of all runs, if it has not yet; this one is not settled before.
            held.stop = Stop.LOST
            outcome, error = Released(), late
        except Exception as ours:  # noqa: BLE001  # not the handler's: still an end, or it would be held for ever
            outcome, error = Failed(from_error(ours)), ours
        finally:
            self._free_slot(held, thread)
        if context._is_completed:  # noqa: SLF001  # it was settled in the handler's own transaction
            if thread is not None and held.kind.style == "thread":  # what was cut short is our waiting for it
                error = thread.exception() if thread.done() else None
            self._after_own_commit(held, context, error)
            return
        if held.stop is Stop.LOST:
            is_begun = not isinstance(error, NotBegun)
            doing = f"settle as {type(outcome).__name__.lower()}" if is_begun else "begin"
            self._say_lost(held, context, doing)
            return
        self._settler.put(self._ending(held, context, outcome, error))

    def _ending(
        self, held: ClaimedRun, context: Context, outcome: Outcome, error: BaseException | None
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
        return RunEnding(held, self._decided(held, outcome), state, context, error, self._settled)

    async def _outcome(
        self, held: ClaimedRun, context: Context, caller: Caller
    ) -> tuple[Outcome, BaseException | None]:
        try:
            arguments = held.kind.signature.decode(held.row.args)
        except Undecodable as error:
            return NotDecoded(from_error(error, "decode_error")), error
        current.set(context)
        if held.is_told_to_stop:  # before its first step, so there was nothing to cancel yet
            return outcome_of_stop(held, early := asyncio.CancelledError()), early
        held.check_lease()
        if self._is_start_heard:
            self._emitter.emit(AttemptStarted(held.fact))
        try:
            if held.kind.hooks.on_start:
                await self._hook_caller.call("on_start", held, held.kind.hooks.on_start, context)
                held.check_lease()
            result = await caller.call(held, context, arguments)
            if result is not None:
                result = await come_to(result)
        except asyncio.CancelledError as error:
            return outcome_of_stop(held, error), error
        except NotBegun:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a handler raises ends its attempt, not us
            is_stopped = held.stop in _ON_REQUEST and not isinstance(error, HandlerRequest)
            return outcome_of_stop(held, error) if is_stopped else outcome_of_error(held, error), error
        return outcome_of_result(held, result)

    async def _dated(self, held: ClaimedRun, misfit: NotDecoded) -> NotDecoded:
        """With how long it has not fitted. What cannot be told now is asked of the next run."""
        with suppress(DatabaseError, asyncio.CancelledError):
            return NotDecoded(misfit.failure, await self._misfit_for(held.job) or timedelta())
        return misfit

    @staticmethod
    def _decided(held: ClaimedRun, outcome: Outcome) -> Transition:
        if outcome is NOTHING_TO_KEEP:
            return SUCCESS  # what most runs come to
        row = held.row
        run = Run(row.attempt, row.max_attempts, from_json(row.backoff))
        return decide(run, outcome, random.random())  # noqa: S311  # spreads load

    def _settled(self, ending: RunEnding, answer: Answer, outcome: str | None) -> None:
        held = ending.held
        self._forget(held)
        if outcome == "succeeded":
            flag = flag_of(ending.transition)
            self._say_succeeded(held, ending.context, flag)
        elif answer == "lost":
            doing = f"settle as {type(ending.transition).__name__.lower()}"
            self._say_lost(held, ending.context, doing)
        elif outcome is not None:
            self._say_ended(held, ending.context, ending.transition, outcome, ending.error)

    def _forget(self, held: ClaimedRun) -> None:
        """Its task knows its context, which knows it: left together, only the garbage collector would find
        them, and it would have to for every job.
        """
        self.held.pop(held.run, None)
        held.task = None

    def _after_own_commit(self, held: ClaimedRun, context: Context, error: BaseException | None) -> None:
        self._forget(held)
        if error is not None:
            context.log.error(
                "raised after ctx.transaction() had completed the job; it is not tried again", exc_info=error
            )
        outcome = context._own_outcome  # noqa: SLF001  # as above
        if outcome == "succeeded":
            own = context._own_result  # noqa: SLF001  # as above
            self._say_succeeded(held, context, None if own is None else own.flag)
        else:
            waiting, failure = context._own_wait  # noqa: SLF001  # as above
            self._emitter.emit(AttemptEnded(held.fact, outcome, held.took, failure, waiting=waiting))
            self._wake(LEADER)

    def _say_succeeded(self, held: ClaimedRun, context: Context, flag: str | None) -> None:
        """With the flag of a result that was dropped, which is said in any case."""
        if flag is not None or self._emitter.is_heard(AttemptEnded):
            self._emitter.emit(AttemptEnded(held.fact, "succeeded", held.took, flag=flag))
        if held.kind.hooks.on_success:
            self._hook_caller.soon(held, ("on_success", held.kind.hooks.on_success, (context,)))

    def _say_ended(
        self,
        held: ClaimedRun,
        context: Context,
        transition: Transition,
        outcome: str,
        error: BaseException | None,
    ) -> None:
        hooks = held.kind.hooks
        if outcome in ("retried", "snoozed"):
            self._wake(LEADER)
        elif outcome == "released":
            self._wake(held.queue)
        failure, delay = failure_and_delay(transition)
        goes_on = outcome in ("retried", "snoozed")
        self._emitter.emit(AttemptEnded(held.fact, outcome, held.took, failure, delay if goes_on else None))
        told = error if error is not None else _ended(held.job, outcome, failure)
        self._hook_caller.soon(
            held, *((name, hook, (context, told)) for name, hook in hooks.told_of(outcome))
        )

    def _say_lost(self, held: ClaimedRun, context: Context, doing: str) -> None:
        self._forget(held)
        self._emitter.emit(LeaseWasLost(held.fact, doing))
        self._hook_caller.soon(held, ("on_lease_lost", held.kind.hooks.on_lease_lost, (context,)))

    def _save_progress(self, held: ClaimedRun, text: str) -> None:
        saving = Saving(held.worker, held.job, held.run, progress=text)
        self._loop.call_soon_threadsafe(self._settler.put_saving, saving)

    def _free_slot(self, held: ClaimedRun, thread: "Future[Any] | None") -> None:
        if held.kind.style == "process":
            self._places.give_back()
        if thread is None or thread.done():
            self._slots.give_back(held.queue)
        else:
            self._stray_threads.remember(held, thread, self._slots.give_back)


def _ended(job: int, outcome: str, failure: Failure | None) -> JobEnded:
    """For the hooks of a job that was ended without anything having been raised."""
    return JobEnded(job=job, state=outcome, error=json.loads(failure.to_json()) if failure else {})


def _maker_of_tasks(loop: asyncio.AbstractEventLoop) -> Callable[..., "asyncio.Task[None]"]:
    """As `loop.create_task`; but a name that is given at once saves making one up, a fifth of the price."""
    return loop.create_task if loop.get_task_factory() else partial(asyncio.Task, loop=loop)
