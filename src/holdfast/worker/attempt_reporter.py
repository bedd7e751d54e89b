"""Reports how attempts ended: to telemetry, to the hooks of users, and to workers that have to wake up."""

import json
from collections.abc import Callable

from holdfast.domain.failure import Failure
from holdfast.domain.states import RunOutcome
from holdfast.domain.transition import CompleteJob
from holdfast.errors import JobEnded
from holdfast.producer.wake_ups import LEADER
from holdfast.storage.runs import Answer
from holdfast.telemetry.events import AttemptEnded, AttemptStarted, Emitter, LeaseWasLost
from holdfast.worker.attempt_outcome import failure_and_delay, secrets_of
from holdfast.worker.claimed_run import ClaimedRun, CommittedEnd
from holdfast.worker.context import Context
from holdfast.worker.current_run import log_of
from holdfast.worker.hook_caller import HookCaller
from holdfast.worker.job_kind import Hook
from holdfast.worker.settler import RunEnding
from holdfast.worker.uncertain_commits import UncertainCommits


class AttemptReporter:
    """`wake` takes the name of a queue, or LEADER. `forget` is told of every run that has ended."""

    def __init__(
        self,
        emitter: Emitter,
        hook_caller: HookCaller,
        wake: Callable[[str], None],
        forget: Callable[[ClaimedRun], None],
        uncertain: UncertainCommits,
    ) -> None:
        self._emitter = emitter
        self._hook_caller = hook_caller
        self._wake = wake
        self._forget = forget
        self._uncertain = uncertain

    def started(self, claimed: ClaimedRun) -> None:
        self._emitter.emit(AttemptStarted(claimed.fact))

    async def call_on_start(self, hook: Hook, claimed: ClaimedRun, context: Context) -> None:
        await self._hook_caller.call("on_start", claimed, hook, context)

    def settled(self, ending: RunEnding, answer: Answer, outcome: RunOutcome | None) -> None:
        """The settler's answer: what has become of the run."""
        claimed, transition = ending.claimed, ending.transition
        self._forget(claimed)
        if outcome == "succeeded":
            flag = transition.flag if isinstance(transition, CompleteJob) else None
            self._succeeded(claimed, ending.context, flag)
        elif answer == "lost":
            self.lost(claimed, ending.context, f"settle as {transition.outcome}")
        elif outcome is not None:
            self._ended(ending, outcome)

    def committed(
        self, claimed: ClaimedRun, context: Context, end: CommittedEnd, error: BaseException | None
    ) -> None:
        """The run ended by a commit of its own. `error` is what its handler raised after that."""
        self._forget(claimed)
        if error is not None:
            log_of(claimed).error(
                "raised after ctx.transaction() had completed the job; it is not retried", exc_info=error
            )
        if end.outcome == "succeeded":
            self._succeeded(claimed, context, end.flag)
        else:
            self._emitter.emit(
                AttemptEnded(
                    claimed.fact,
                    end.outcome,
                    claimed.took,
                    end.failure,
                    waiting=end.waiting,
                    next_step=end.next_step,
                    waited=claimed.waited,
                )
            )
            self._wake(LEADER)

    def lost(self, claimed: ClaimedRun, context: Context, doing: str) -> None:
        """The run was taken away while it was about to do this. Or it has ended before, by a commit whose
        reply was lost: the ledger knows.
        """
        end = claimed.uncertain_end
        if end is None:
            self._taken_away(claimed, context, doing)
            return

        def told(outcome: RunOutcome | None) -> None:
            if outcome == end.outcome:
                self.committed(claimed, context, end, None)
            else:
                self._taken_away(claimed, context, doing)

        self._forget(claimed)
        self._uncertain.ask(claimed.job, claimed.run, told)

    def _taken_away(self, claimed: ClaimedRun, context: Context, doing: str) -> None:
        self._forget(claimed)
        self._emitter.emit(LeaseWasLost(claimed.fact, doing))
        self._hook_caller.soon(claimed, ("on_lease_lost", claimed.kind.hooks.on_lease_lost, (context,)))

    def _succeeded(self, claimed: ClaimedRun, context: Context, flag: str | None) -> None:
        """A flag says that the result was dropped: that is emitted even if no success is heard."""
        if flag is not None or self._emitter.is_heard(AttemptEnded):
            self._emitter.emit(
                AttemptEnded(claimed.fact, "succeeded", claimed.took, flag=flag, waited=claimed.waited)
            )
        if claimed.kind.hooks.on_success:
            self._hook_caller.soon(claimed, ("on_success", claimed.kind.hooks.on_success, (context,)))

    def _ended(self, ending: RunEnding, outcome: RunOutcome) -> None:
        claimed = ending.claimed
        goes_on = outcome in ("retried", "snoozed")
        if goes_on:
            self._wake(LEADER)
        elif outcome == "released":
            self._wake(claimed.queue)
        failure, delay = failure_and_delay(ending.transition)
        self._emitter.emit(
            AttemptEnded(
                claimed.fact,
                outcome,
                claimed.took,
                failure,
                delay if goes_on else None,
                error=None if failure is None or secrets_of(claimed) else ending.error,
                tags=tuple(claimed.row.tags or ()) if failure is not None else (),
                waited=claimed.waited,
            )
        )
        error = ending.error if ending.error is not None else _job_ended(claimed.job, outcome, failure)
        hooks = claimed.kind.hooks.told_of(outcome)
        self._hook_caller.soon(claimed, *((name, hook, (ending.context, error)) for name, hook in hooks))


def _job_ended(job: int, outcome: RunOutcome, failure: Failure | None) -> JobEnded:
    """For the hooks of a job that ended without anything having been raised."""
    return JobEnded(job=job, state=outcome, error=json.loads(failure.to_json()) if failure else {})
