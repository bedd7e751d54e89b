"""How stories begin: a job that runs, one that died, one whose way is blocked."""

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.transition import CompleteJob, FailJob, ReleaseJob, RetryJob, SnoozeJob
from holdfast.storage.runs import ClaimRow
from storage.interleaving.session import Party

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
YEAR = timedelta(days=365)

DONE = CompleteJob('{"sent": true}', None)
RETRY = RetryJob(SECOND, Failure("the server did not answer"))
FAIL = FailJob(Failure("the address does not exist"))
SNOOZE = SnoozeJob(SECOND)
RELEASE = ReleaseJob()


def running(party: Party, policy: Policy | None = None, **when: Any) -> tuple[int, int, ClaimRow]:
    """A job under way: its worker, its id and its run."""
    worker = party.worker()
    job = party.enqueue(policy, **when)
    [run] = party.claim(worker)
    assert run.job == job
    return worker, job, run


def dead(party: Party, **when: Any) -> int:
    worker, job, run = running(party, **when)
    assert party.settle(worker, run, FAIL).outcome == "failed"
    return job


def lost(party: Party, worker: int) -> None:
    """A minute passes for this party, and the worker did not beat."""
    party.pass_time(MINUTE)
    assert party.mark_lost() == [worker]


def blocking_ready(party: Party, job: int, *, segment: int = 0) -> AbstractContextManager[None]:
    """A statement that moves this job to ready has to wait in its middle."""
    return party.holding(
        "insert into holdfast.ready (queue, priority, job, segment, kind, attempt, ready_at)"
        " values ('default', 5, %s, %s, 'mail', 0, now())",
        job,
        segment,
    )


def blocking_runs(party: Party) -> AbstractContextManager[None]:
    """A claim that has taken jobs and not leased them yet has to wait, for the number of a run."""
    return party.holding("alter sequence holdfast.run no cycle")


def blocking_ids(party: Party) -> AbstractContextManager[None]:
    """Whoever enqueues has to wait, with his snapshot taken and nothing written."""
    return party.holding("alter sequence holdfast.job_id_seq no cycle")


def blocking_tallies(party: Party) -> AbstractContextManager[None]:
    """Whoever ends a job has to wait before he counts it, frees its key and writes the ledger."""
    return party.holding("alter sequence holdfast.tally_id_seq no cycle")
