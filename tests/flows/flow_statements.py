"""Statements of flows in short: begin a flow, wait, wake, emit, call children, read checkpoints."""

from datetime import timedelta
from typing import Any

from holdfast.domain.flow_path import Recorded
from holdfast.domain.job import NewJob, Policy
from holdfast.postgres.conversation import hold_blocking
from holdfast.storage import flows
from storage.interleaving.session import Session
from support.engine import SCHEMA

HOUR = timedelta(hours=1)
FLOW = Policy("flow")
KINDS = ("flow", "mail")


def begun(session: Session, policy: Policy = FLOW, **when: Any) -> flows.Fence:
    """A running flow, enqueued and claimed by a new worker."""
    worker = session.worker(kinds=KINDS)
    job = session.enqueue(policy, **when)
    [run] = session.claim(worker, kinds=KINDS)
    assert run.job == job
    return flows.Fence(worker, job, run.run)


def again(session: Session, job: int) -> flows.Fence:
    """The next run of the same flow."""
    worker = session.worker(kinds=KINDS)
    runs = [run for run in session.claim(worker, kinds=KINDS) if run.job == job]
    assert len(runs) == 1, "it is not ready"
    return flows.Fence(worker, job, runs[0].run)


def event(fence: flows.Fence, key: str = "packed", *, within: timedelta | None = None) -> flows.Wait:
    return flows.Wait(fence, f"wait for {key}", "event", within, key=key)


def children(fence: flows.Fence, bunch: str = "mails", *, is_eager: bool = False) -> flows.Wait:
    return flows.Wait(fence, bunch, "call", is_eager=is_eager)


def waits(session: Session, *things: flows.Wait) -> list[str]:
    """The answer to each wait, in a transaction of its own."""
    rows = session.hold(flows.wait(SCHEMA, things, now=session.now))
    by_name = {row.name: row.status for row in rows}
    return [by_name[thing.name] for thing in things]


def looks(session: Session, *things: flows.Wait) -> list[flows.Waited]:
    """The same in the transaction that the test has begun."""
    return hold_blocking(flows.wait(SCHEMA, things, now=session.now), session.run)


def wakes(session: Session) -> int:
    _, woken = session.hold(flows.wake(SCHEMA, now=session.now))
    return woken.woken


def emits(session: Session, key: str = "packed", payload: str | None = '{"by": "Ann"}') -> None:
    session.run(flows.emit(SCHEMA, [(key, payload)], notify=False, now=session.now))


def calls(session: Session, fence: flows.Fence, count: int = 1, bunch: str = "mails") -> list[int]:
    new = [NewJob(Policy("mail")) for _ in range(count)]
    names = [f"{bunch}[{number}]" for number in range(count)]
    return session.run(flows.call(SCHEMA, fence, new, names, bunch=bunch, now=session.now))


def checkpoints(session: Session, job: int) -> dict[str, Recorded]:
    return {row.name: row for row in session.run(flows.load(SCHEMA, [job], now=session.now))}
