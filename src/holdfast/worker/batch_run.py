"""The runs of one batch, and the one call that serves all of them.

Each job of a batch has a run of its own, a `BatchMember`: its lease, timeout, outcome and ledger entry are
those of any other run. `BatchRun` stands for the call: what calls a handler takes it for a run.
"""

import asyncio
from collections.abc import Mapping, Sequence

from holdfast.domain.kept_logs import KeptLine
from holdfast.errors import InvalidInput
from holdfast.storage.runs import ClaimRow
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.job_kind import Kind
from holdfast.worker.lease import UNBOUNDED, Lease
from holdfast.worker.run_lines import RunLines

_NO_OWN_TRANSACTION = (
    "this run is one of a batch, whose handler is called once for all of them: take a BatchContext as the "
    "first parameter, and use its transaction()"
)


class BatchMember(ClaimedRun):
    """The run of one job of a batch. Told to stop, it leaves the call to the others."""

    __slots__ = ("batch",)

    def __init__(self, worker: int, queue: str, row: ClaimRow, kind: Kind, lease: Lease = UNBOUNDED) -> None:
        super().__init__(worker, queue, row, kind, lease)
        self.no_transaction = _NO_OWN_TRANSACTION
        self.batch: BatchRun | None = None

    def _cancel(self) -> None:
        if self.batch is not None:
            self.batch.member_told()


class BatchLines(RunLines):
    """The handler's log lines are those of every job: nobody can tell which one a line is about."""

    __slots__ = ("_each",)

    def __init__(self, each: Sequence[RunLines]) -> None:
        super().__init__()
        self._each = each

    def add(self, line: KeptLine) -> None:
        for lines in self._each:
            lines.add(line)


class BatchRun(ClaimedRun):
    """`members` are in the order of the handler's list. `failures` has what `ctx.fail` has said, by place;
    `ends` what middleware has made of the errors that members met. `left_block` is the error with which the
    handler left ctx.transaction(), so that its writes were rolled back.
    """

    __slots__ = ("_is_cancelled_soon", "_loop", "ends", "failures", "left_block", "members")

    def __init__(self, members: Sequence[BatchMember]) -> None:
        first = members[0]
        super().__init__(first.worker, first.queue, first.row, first.kind, first.lease)
        self.is_begun = False
        self.members = list(members)
        self.failures: dict[int, BaseException] = {}
        self.ends: dict[int, BaseException | None] = {}
        self.left_block: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._is_cancelled_soon = False
        for member in members:
            member.batch = self
            member.is_begun = False

    @property
    def jobs(self) -> tuple[int, ...]:
        return tuple(member.job for member in self.members)

    @property
    def log_facts(self) -> Mapping[str, object]:
        jobs = self.jobs
        return {"jobs": len(jobs), "first_job": min(jobs, default=0), "last_job": max(jobs, default=0)}

    @property
    def to_complete(self) -> list[BatchMember]:
        """Those that a commit completes: all but the ones that the handler fails, or has seen cancelled."""
        return [
            member
            for place, member in enumerate(self.members)
            if place not in self.failures and not member.is_left_out
        ]

    def begin(self) -> None:
        for run in (self, *self.members):
            run.is_begun = True

    def leave(self, *members: BatchMember) -> None:
        """These take no part in the call, which has not begun."""
        self.members = [member for member in self.members if member not in members]
        self.member_told()

    def fail(self, place: int, error: BaseException) -> None:
        """The job at this place of the handler's list fails with this error."""
        check_places((place,), len(self.members), "ctx.fail()")
        if not isinstance(error, BaseException):
            raise InvalidInput(f"ctx.fail({place}, {error!r}): give an exception as the error")
        if self.members[place].committed is not None:
            raise InvalidInput("this job is completed already: call ctx.fail() before the block ends")
        self.failures[place] = error

    def member_told(self) -> None:
        """The call is stopped when no job is left that it could go on for."""
        reasons = {member.stop for member in self.members}
        if None in reasons or not reasons:
            return
        self.stop = Stop.LOST if reasons == {Stop.LOST} else next(iter(reasons - {Stop.LOST}))
        if self.is_begun and not self._is_cancelled_soon:
            # Once for all of them: each cancel after the first would interrupt another await.
            self._is_cancelled_soon = True
            self._loop.call_soon(self._cancel_now)

    def _cancel_now(self) -> None:
        self._is_cancelled_soon = False
        if self.task is not None:
            self.task.cancel()

    def dissolve(self) -> None:
        """The call has ended. Batch and members refer to each other: only the garbage collector would find
        them.
        """
        for member in self.members:
            member.batch = None


def check_places(places: Sequence[object], number: int, what: str) -> None:
    """Raises InvalidInput unless all of them are places of a list of so many jobs."""
    wrong = [
        each
        for each in places
        if not isinstance(each, int) or isinstance(each, bool) or not 0 <= each < number
    ]
    if wrong:
        raise InvalidInput(
            f"{what} names {wrong[0]!r}, and the batch has {number} jobs: give places of the handler's list, "
            f"from 0 to {number - 1}"
        )
