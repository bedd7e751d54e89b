"""Flows as the tables see them: a run under way, what it waits for, a leader who wakes."""

from datetime import timedelta
from typing import Any

from holdfast.domain.flow_path import Recorded
from holdfast.domain.job import NewJob, Policy
from holdfast.postgres.conversation import hold_blocking
from holdfast.storage import flows
from storage.interleaving.session import Party
from support.engine import SCHEMA

HOUR = timedelta(hours=1)
FLOW = Policy("flow")
KINDS = ("flow", "mail")


def begun(party: Party, policy: Policy = FLOW, **when: Any) -> flows.Fence:
    """A flow under way."""
    worker = party.worker(kinds=KINDS)
    job = party.enqueue(policy, **when)
    [run] = party.claim(worker, kinds=KINDS)
    assert run.job == job
    return flows.Fence(worker, job, run.run)


def again(party: Party, job: int) -> flows.Fence:
    """The same flow in its next run."""
    worker = party.worker(kinds=KINDS)
    runs = [run for run in party.claim(worker, kinds=KINDS) if run.job == job]
    assert len(runs) == 1, "it is not ready"
    return flows.Fence(worker, job, runs[0].run)


def event(fence: flows.Fence, key: str = "packed", *, within: timedelta | None = None) -> flows.Wait:
    return flows.Wait(fence, f"wait for {key}", "event", within, key=key)


def children(fence: flows.Fence, bunch: str = "mails", *, is_eager: bool = False) -> flows.Wait:
    return flows.Wait(fence, bunch, "call", is_eager=is_eager)


def waits(party: Party, *things: flows.Wait) -> list[str]:
    """What becomes of each."""
    rows = party.hold(flows.wait(SCHEMA, things, now=party.now))
    by_name = {row.name: row.status for row in rows}
    return [by_name[thing.name] for thing in things]


def looks(party: Party, *things: flows.Wait) -> list[flows.Waited]:
    """The same in a transaction that the story has begun itself."""
    return hold_blocking(flows.wait(SCHEMA, things, now=party.now), party.run)


def wakes(party: Party) -> int:
    _, woken = party.hold(flows.wake(SCHEMA, now=party.now))
    return woken.woken


def emits(party: Party, key: str = "packed", payload: str | None = '{"by": "Ann"}') -> None:
    party.run(flows.emit(SCHEMA, [(key, payload)], notify=False, now=party.now))


def calls(party: Party, fence: flows.Fence, count: int = 1, bunch: str = "mails") -> list[int]:
    new = [NewJob(Policy("mail")) for _ in range(count)]
    names = [f"{bunch}[{number}]" for number in range(count)]
    return party.run(flows.call(SCHEMA, fence, new, names, bunch=bunch, now=party.now))


def checkpoints(party: Party, job: int) -> dict[str, Recorded]:
    return {row.name: row for row in party.run(flows.load(SCHEMA, [job], now=party.now))}
