"""The attempts of this worker: begun with claimed runs, told to stop when they must, known until settled or
lost. What happens inside one attempt is in `attempt_runner`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.domain.failure import Failure
from holdfast.domain.fingerprint import identified
from holdfast.domain.transition import FailJob
from holdfast.postgres.session_settings import Isolation
from holdfast.storage.runs import ClaimRow, Saving
from holdfast.telemetry.events import AttemptStarted, Emitter, StillRunning
from holdfast.worker.attempt_reporter import AttemptReporter
from holdfast.worker.attempt_runner import AttemptRunner
from holdfast.worker.batch_run import BatchMember, BatchRun
from holdfast.worker.batch_runner import BatchRunner
from holdfast.worker.callers import Caller
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.completion import Completion
from holdfast.worker.context import Context
from holdfast.worker.hook_caller import HookCaller
from holdfast.worker.job_kind import Hooks, Kind, Kinds, Style
from holdfast.worker.lease import Lease
from holdfast.worker.log_keeper import LogKeeper
from holdfast.worker.processes.places import Places
from holdfast.worker.run_timeouts import RunTimeouts
from holdfast.worker.settler import RunEnding, Settler
from holdfast.worker.slots import Slots
from holdfast.worker.stray_threads import StrayThreads
from holdfast.worker.uncertain_commits import UncertainCommits

Complete = Callable[[ClaimedRun, Any, Isolation | None], Completion]
_PATIENCE_SECONDS = 2.0


class Attempts:
    """`runs` has every run from its claim until it is settled or lost."""

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
        uncertain: UncertainCommits,
        log_keeper: LogKeeper,
    ) -> None:
        self._kinds = kinds
        self._settler = settler
        self._slots = slots
        self._emitter = emitter
        self._loop = asyncio.get_running_loop()
        self._new_task = _task_factory(self._loop)
        self.runs: dict[int, ClaimedRun] = {}
        # Makes what the handler and the hooks of a run are given.
        save_progress, spend = self._save_progress, self._settler.put_spending

        def context(claimed: ClaimedRun) -> Context:
            # By place: made for every job, where keywords cost.
            return Context(claimed, save_progress, complete, spend)

        self.context: Callable[[ClaimedRun], Context] = context
        self._timeouts = RunTimeouts(self.runs, self._stop_soon)
        self._hook_caller = HookCaller(emitter)
        self._uncertain = uncertain
        self._reporter = AttemptReporter(emitter, self._hook_caller, wake, self._forget, uncertain)
        self._runner = AttemptRunner(
            callers,
            settler,
            self._reporter,
            slots=slots,
            places=places,
            stray_threads=stray_threads,
            misfit_for=misfit_for,
            context=self.context,
            log_keeper=log_keeper,
        )
        self._batch_runner = BatchRunner(
            self._runner,
            callers,
            settler,
            self._reporter,
            slots=slots,
            stray_threads=stray_threads,
            context=self.context,
            complete=complete,
            log_keeper=log_keeper,
        )

    def begin(self, lease: Lease, queue: str, rows: Sequence[ClaimRow]) -> None:
        """Begin all runs of one claim, whose slots are taken."""
        self._runner.is_start_heard = self._emitter.is_heard(AttemptStarted)
        for row in rows:
            kind = self._kinds.get(row.kind)
            if kind is None or kind.batch is not None:
                self._slots.give_back(queue)
                self._refuse(lease, queue, row)
                continue
            claimed = self.runs[row.run] = ClaimedRun(lease.worker, queue, row, kind, lease)
            claimed.is_begun = False
            claimed.task = self._new_task(self._runner.run(claimed), name=row.kind)
            if claimed.overdue_at < self._timeouts.next_at:
                self._timeouts.watch(claimed)

    def begin_batch(self, lease: Lease, queue: str, kind: Kind, rows: Sequence[ClaimRow]) -> None:
        """Begin the runs of one batch of this kind, whose slot is taken."""
        self._runner.is_start_heard = self._emitter.is_heard(AttemptStarted)
        for row in rows:
            if row.kind != kind.name:
                self._refuse(lease, queue, row)
        members = [
            BatchMember(lease.worker, queue, row, kind, lease) for row in rows if row.kind == kind.name
        ]
        if not members:
            self._slots.give_back(queue)
            return
        batch = BatchRun(members)
        batch.task = self._new_task(self._batch_runner.run(batch), name=kind.name)
        for member in members:
            self.runs[member.run] = member
            member.task = batch.task
            if member.overdue_at < self._timeouts.next_at:
                self._timeouts.watch(member)

    def _refuse(self, lease: Lease, queue: str, row: ClaimRow) -> None:
        """The kind in `job` was changed by hand, and is now none that this worker asked for."""
        kind = replace(next(iter(self._kinds.values())), hooks=Hooks())
        claimed = self.runs[row.run] = ClaimedRun(lease.worker, queue, row, kind, lease)
        failure = Failure(
            f"its row in job has the kind {row.kind[:200]!r}, its row in ready another", "decode_error"
        )
        self._settler.put(
            RunEnding.of(
                claimed, FailJob(identified(failure, row.kind)), self.context(claimed), self._reporter.settled
            )
        )

    def tell_to_stop(self, reason: Stop, *, worker: int | None = None) -> int:
        """Tell all runs to stop, or those of one worker. Returns how many handlers are cut short by it."""
        told = [claimed for claimed in self.runs.values() if worker is None or claimed.worker == worker]
        cut_short = sum(claimed.is_running for claimed in told)
        if reason is Stop.SHUTDOWN:
            self._uncertain.hurry()
        for claimed in told:
            claimed.tell_to_stop(reason)
            if reason is Stop.LOST:
                self.runs.pop(claimed.run, None)
        return cut_short

    def cancel(self, runs: list[int]) -> None:
        """An operator or a caller has asked to cancel these runs."""
        for run in runs:
            if claimed := self.runs.get(run):
                self._stop_soon(claimed, Stop.CANCEL)

    def lose(self, runs: list[int]) -> None:
        """These runs have no lease any more: the leader took them away past their timeout, or they are
        settled.
        """
        for run in runs:
            claimed = self.runs.get(run)
            if claimed is not None and not claimed.is_completing and claimed.is_running:
                claimed.tell_to_stop(Stop.LOST)
                self.runs.pop(run, None)

    async def ended(self) -> None:
        """Wait until every attempt has handed over its ending, and every hook has run."""
        while tasks := [
            claimed.task for claimed in self.runs.values() if claimed.task and claimed.is_running
        ]:
            await asyncio.wait(tasks)
        await self._uncertain.ended()
        await self._hook_caller.ended()

    def watch(self, claimed: ClaimedRun) -> None:
        """The timeout of this run has changed."""
        if claimed.overdue_at < self._timeouts.next_at:
            self._timeouts.watch(claimed)

    def _stop_soon(self, claimed: ClaimedRun, reason: Stop) -> None:
        """Tell a run to stop, and check a little later whether it did."""
        if claimed.stop is None:
            claimed.tell_to_stop(reason)
            self._loop.call_later(_PATIENCE_SECONDS, self._report_if_running, claimed, reason)

    def _report_if_running(self, claimed: ClaimedRun, told: Stop) -> None:
        if claimed.stop is told and claimed.is_running:
            is_thread = claimed.kind.style == "thread"
            self._emitter.emit(StillRunning(claimed.fact, told.value, is_thread))

    def _forget(self, claimed: ClaimedRun) -> None:
        """A run and its task refer to each other: left together, only the garbage collector would find them,
        and it would have to for every job.
        """
        self.runs.pop(claimed.run, None)
        claimed.task = None

    def _save_progress(self, claimed: ClaimedRun, text: str) -> None:
        saving = Saving(claimed.worker, claimed.job, claimed.run, progress=text)
        self._loop.call_soon_threadsafe(self._settler.put_saving, saving)


def _task_factory(loop: asyncio.AbstractEventLoop) -> Callable[..., "asyncio.Task[None]"]:
    """As `loop.create_task`; but a name given at once saves making one up, a fifth of the price."""
    return loop.create_task if loop.get_task_factory() else partial(asyncio.Task, loop=loop)
