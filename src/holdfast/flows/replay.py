"""One run of a flow beside what earlier runs have recorded: where it is, what it keeps, how it waits."""

import asyncio
import json
import random
import sys
from datetime import timedelta
from typing import NoReturn

from holdfast.domain.flow_path import MAIN, Path, PathPlace, Recorded
from holdfast.domain.retry import Retry
from holdfast.domain.states import RunOutcome
from holdfast.errors import ConnectionLost, InvalidInput, StepFailed
from holdfast.flows.branches import Answers, Branches, here, lane_here
from holdfast.flows.enclosing_step import step_around
from holdfast.flows.recorder import Recorder
from holdfast.flows.step_runner import Again, Final, Open, after_failure, failure_of
from holdfast.flows.suspension import Interrupted, Suspended, follows
from holdfast.flows.wait_descriptions import failure_among, shown
from holdfast.storage.flows import Fence, Wait, Waited, WaitKind, Writing
from holdfast.worker.attempt_outcome import secrets_of
from holdfast.worker.claimed_run import ClaimedRun


class Replay:
    """Made in the task that runs the flow's function: what other tasks do is a branch beside its path."""

    def __init__(self, claimed: ClaimedRun, recorder: Recorder, path: Path, code: int | None) -> None:
        self.recorder = recorder
        self.path = path
        self.code = code
        self.fence = Fence(claimed.worker, claimed.job, claimed.run)
        self.check_lease = claimed.check_lease
        self.claimed = claimed
        self._task = asyncio.current_task()
        self._unkept: list[Writing] = []
        self.end: Suspended | None = None
        self.awaited = ""
        self._is_end_caught = False
        self.children: dict[str, list[int]] = {}
        """The jobs that each wait of that name waits for, for the log."""

    async def arrive(
        self, name: str, kind: str, *, is_new: bool = False
    ) -> tuple[Recorded | None, PathPlace]:
        """Arrive at the next thing to do: what is recorded of it, and its place in the path."""
        [arrived] = await self.arrive_all([name], kind, is_new=is_new)
        return arrived

    async def arrive_all(
        self, names: list[str], kind: str, *, is_new: bool = False
    ) -> list[tuple[Recorded | None, PathPlace]]:
        """Arrive at several things that begin together."""
        if self.end is not None:
            is_ours = asyncio.current_task() is self._task
            self._is_end_caught |= is_ours and not follows(sys.exception(), self.end)
            raise self.end
        self.path.check()
        if (step := step_around(self)) is not None:
            raise self.path.refused(InvalidInput(_nested(names[0], step)))
        await self._keep_failures()
        lane, branches = self.lane, here()
        if branches is not None and lane is not None and not is_new:
            await self._stay_if_cut(branches, names, kind, lane)
        return self.path.arrive_all(names, kind, lane=lane, is_new=is_new)

    async def _stay_if_cut(self, branches: Branches, names: list[str], kind: str, lane: str) -> None:
        """In a gather that ends with the first failure, an earlier run may have stopped this branch here."""
        if branches.may_be_cut and self.path.is_cut(names, kind, lane=lane):
            await branches.hold()

    @property
    def lane(self) -> str | None:
        """Where this code runs: on the main path, in a branch of a gather, or in a task of its own."""
        if here() is not None:
            return lane_here()
        return MAIN if asyncio.current_task() is self._task else None

    async def records(self) -> dict[str, Recorded]:
        """All that the flow has done, as the database has it now."""
        return {record.name: record for record in await self.recorder.load(self.fence.job)}

    async def keep(
        self, name: str, kind: str, value: str | None, place: PathPlace, *, failures: int = 0
    ) -> None:
        await self.recorder.write(self.writing(name, kind, value, place, failures=failures))

    def writing(
        self,
        name: str,
        kind: str,
        value: str | None,
        place: PathPlace,
        *,
        error: str | None = None,
        failures: int = 0,
    ) -> Writing:
        return Writing(self.fence, name, kind, value, error, failures, place.number, self.code, place.branch)

    async def fail(
        self,
        name: str,
        kind: str,
        error: Exception,
        *,
        retry: Retry | None = None,
        failures: int = 1,
        place: PathPlace,
    ) -> NoReturn:
        """Raises StepFailed, unless the step is to be tried again: then this is the end of the run."""
        failure = failure_of(error).without(secrets_of(self.claimed))
        writing = self.writing(name, kind, None, place, error=failure.to_json(), failures=failures)
        failed = StepFailed(name, json.loads(failure.to_json()))
        match after_failure(retry, failures, error, random.random()):  # noqa: S311  # spreads load
            case Again(delay):
                await self.pause(name, delay, failures, failure.to_json(), place)
            case Open():
                self._unkept.append(writing)
            case Final():
                await self.recorder.write(writing)
                failed.is_kept = True
        raise failed from error

    async def pause(
        self, name: str, delay: timedelta, failures: int, error: str | None, place: PathPlace
    ) -> NoReturn:
        """Wait until the step is tried again, in another run."""
        wait = self.wait(name, "retry", place, delay=delay)
        while True:
            await self.wait_for([wait._replace(failures=failures, error=error)])

    def wait(
        self,
        name: str,
        kind: WaitKind,
        place: PathPlace,
        *,
        delay: timedelta | None = None,
        key: str | None = None,
        is_eager: bool = False,
    ) -> Wait:
        return Wait(
            self.fence,
            name,
            kind,
            delay,
            key=key,
            is_eager=is_eager,
            place=place.number,
            code=self.code,
            branch=place.branch,
        )

    async def wait_until_over(self, wait: Wait) -> Waited:
        while (answer := (await self.wait_for([wait]))[wait.name]).status == "open":
            pass
        return answer

    async def wait_for(self, waits: list[Wait]) -> Answers:
        """Until one of these is over, or it is time to leave: in a branch together with the others."""
        if (branches := here()) is not None and asyncio.current_task() is not self._task:
            return await branches.block(waits)
        self.path.check()
        await self._keep_failures()
        # From before the lease goes until it is known whether it went: its absence is then no sign of a loss.
        self.claimed.is_completing = True
        try:
            answers = await self.recorder.wait(waits)
        except BaseException:
            self.claimed.is_completing = False
            raise
        statuses = {answer.status for answer in answers}
        if "waiting" in statuses:
            is_retry = any(wait.error for wait in waits if wait.kind == "retry")
            outcome: RunOutcome = "retried" if is_retry else "snoozed"
            waiting = shown(waits, self.path, self.children, self.claimed.row.started_at + self.claimed.took)
            self.end, self.awaited = (
                Suspended(is_settled=True, outcome=outcome, waiting=waiting, failure=failure_among(waits)),
                waits[0].name,
            )
            raise self.end
        self.claimed.is_completing = False
        if "stop" in statuses:
            self.end = Suspended(is_settled=False)
            raise self.end
        return {answer.name: answer for answer in answers}

    def is_end_caught(self, raised: BaseException | None) -> bool:
        """Whether the user's code caught the end of this run and went on; `raised` is what its function
        raised. An error from a `finally` while the end is on its way out does not count.
        """
        return self.end is not None and (self._is_end_caught or not follows(raised, self.end))

    async def _keep_failures(self) -> None:
        """The flow went on after a step failed: from now on that failure is recorded and not retried."""
        while self._unkept:
            writing = self._unkept.pop(0)
            await self.recorder.write(writing)
            if writing.kind == "transaction" and (await self.records())[writing.name].error is None:
                # Its commit has taken place, and only the answer was lost: the next run knows.
                raise Interrupted(ConnectionLost(f'"{writing.name}" was committed, but the reply was lost'))


def _nested(name: str, step: str) -> str:
    return (
        f'"{name}" is inside of "{step}": a step runs as a whole, and again when it was interrupted, so '
        "nothing in it can be kept or waited for by itself. Let the step return, and do this "
        "in the flow's own function"
    )
