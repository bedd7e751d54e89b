"""Jobs in a prepared state (running, dead, with a lost worker), transitions to settle them with, and locks
that make a statement wait in its middle.
"""

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.transition import CompleteJob, FailJob, ReleaseJob, RetryJob, SnoozeJob
from holdfast.storage.runs import ClaimRow
from storage.interleaving.session import Session

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
YEAR = timedelta(days=365)

DONE = CompleteJob('{"sent": true}', None)
RETRY = RetryJob(SECOND, Failure("the server did not answer"))
FAIL = FailJob(Failure("the address does not exist"))
SNOOZE = SnoozeJob(SECOND)
RELEASE = ReleaseJob()


def running(session: Session, policy: Policy | None = None, **when: Any) -> tuple[int, int, ClaimRow]:
    """A running job: its worker, its id and its run."""
    worker = session.worker()
    job = session.enqueue(policy, **when)
    [run] = session.claim(worker)
    assert run.job == job
    return worker, job, run


def dead(session: Session, **when: Any) -> int:
    worker, job, run = running(session, **when)
    assert session.settle(worker, run, FAIL).outcome == "failed"
    return job


def lost(session: Session, worker: int) -> None:
    """A minute passes for this session, in which the worker sent no heartbeat."""
    session.pass_time(MINUTE)
    assert session.mark_lost() == [worker]


def blocking_ready(session: Session, job: int, *, segment: int = 0) -> AbstractContextManager[None]:
    """Every statement that moves this job to ready waits in its middle."""
    return session.holding(
        "insert into holdfast.ready (queue, priority, job, segment, kind, attempt, ready_at)"
        " values ('default', 5, %s, %s, 'mail', 0, now())",
        job,
        segment,
    )


def blocking_runs(session: Session) -> AbstractContextManager[None]:
    """A claim waits for the number of a run: after it has taken jobs, before it has leased them."""
    return session.holding("alter sequence holdfast.run no cycle")


def blocking_ids(session: Session) -> AbstractContextManager[None]:
    """Every enqueue waits after it has taken its snapshot, before it has written anything."""
    return session.holding("alter sequence holdfast.job_id_seq no cycle")


def blocking_tallies(session: Session) -> AbstractContextManager[None]:
    """Every statement that ends a job waits before it counts the job, frees its key and writes the ledger."""
    return session.holding("alter sequence holdfast.tally_id_seq no cycle")
