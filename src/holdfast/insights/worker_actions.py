"""What operators ask of a running worker. Each request leaves an entry in the audit, in the same transaction;
the worker hears of it with its next heartbeat.
"""

from collections import Counter
from datetime import timedelta

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.domain.job import check_text, is_whole
from holdfast.domain.steering import AskedActivity, Wanted, why_not
from holdfast.errors import InvalidInput, WorkerNotFound, WorkerRefused
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import put_audit
from holdfast.storage.worker_requests import LockedRequest, ask_for_slots, ask_to_be, lock_request

_SLOTS = range(1, 100_001)
_VERBS: dict[Wanted, str] = {
    "quiet": "be made quiet",
    "work": "go on",
    "stop": "be stopped",
    "hurry": "be stopped",
    "slots": "get other slots",
}


def quieten(schema: Schema, worker: int, *, by: str, reason: str | None) -> Conversation[None]:
    yield from _found(schema, worker, "quiet")
    yield from _asked(schema, worker, "quiet", "quiet worker", by=by, reason=reason)


def resume(schema: Schema, worker: int, *, by: str, reason: str | None) -> Conversation[bool]:
    """Answers whether it was quiet, or asked to be."""
    found = yield from _found(schema, worker, "work")
    if found.asked != "quiet":
        return False
    yield from _asked(schema, worker, None, "resume worker", by=by, reason=reason)
    return True


def stop(
    schema: Schema, worker: int, *, grace: timedelta | None, now: bool, by: str, reason: str | None
) -> Conversation[None]:
    if grace is not None and grace < timedelta():
        raise InvalidInput(f"grace is {grace}: it must not be negative")
    wanted: AskedActivity = "hurry" if now else "stop"
    yield from _found(schema, worker, wanted)
    action = "stop worker now" if now else "stop worker"
    yield from _asked(schema, worker, wanted, action, grace=grace, by=by, reason=reason)


def change_slots(
    schema: Schema, worker: int, queue: str, slots: int, *, by: str, reason: str | None
) -> Conversation[None]:
    if not is_whole(slots) or slots not in _SLOTS:
        raise InvalidInput(
            f"slots is {slots!r}: give 1 to {_SLOTS[-1]}; to run none, pause the queue or quieten the worker"
        )
    found = yield from _found(schema, worker, "slots")
    if queue not in found.queues:
        raise InvalidInput(
            f'worker {worker} does not serve the queue "{queue}"{did_you_mean(queue, found.queues)} '
            f"(it serves {', '.join(found.queues)})"
        )
    yield from ask(ask_for_slots(schema, worker, queue, slots))
    yield from _remember(schema, worker, f"slots {queue}={slots}", by=by, reason=reason)


def _found(schema: Schema, worker: int, wanted: Wanted) -> Conversation[LockedRequest]:
    rows = yield from ask(lock_request(schema, worker))
    if not rows:
        raise WorkerNotFound(worker)
    problem = why_not(wanted, rows[0].standing)
    if problem is not None:
        raise WorkerRefused(worker, _VERBS[wanted], problem)
    return rows[0]


def _asked(
    schema: Schema,
    worker: int,
    activity: AskedActivity | None,
    action: str,
    *,
    grace: timedelta | None = None,
    by: str,
    reason: str | None,
) -> Conversation[None]:
    yield from ask(ask_to_be(schema, worker, activity, grace=grace, by=by, reason=reason))
    yield from _remember(schema, worker, action, by=by, reason=reason)


def _remember(schema: Schema, worker: int, action: str, *, by: str, reason: str | None) -> Conversation[None]:
    if reason is not None:
        check_text("reason", reason)
    target = f"worker {worker}"
    counts = Counter({"asked": 1})
    yield from ask(put_audit(schema, action=action, by=by, target=target, reason=reason, counts=counts))
