"""What operators do with kinds: look one up, enqueue a job by its name, forget one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from holdfast.domain.job import NewJob, Policy, args_json, check_name, check_text
from holdfast.domain.parameters import complaint_about
from holdfast.errors import InvalidArguments, KindNotFound
from holdfast.insights.kind_records import KindRecord, kind_record
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import put_audit
from holdfast.storage.jobs import Enqueued, enqueue
from holdfast.storage.kinds import KindRow, forget_kind, kinds

_MOST = 10_000
_KNOWN = "start a worker that knows it, and see app.kinds.list() for those that are known"
_FORCED = "start a worker that knows it, or use force to enqueue it all the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueOptions:
    """What one job is to have beside its arguments; None where the kind's own option applies."""

    queue: str | None = None
    priority: int | None = None
    tags: tuple[str, ...] | None = None
    at: datetime | None = None
    delay: timedelta | None = None
    unique: str | None = None

    def job(self, policy: Policy, args: str) -> NewJob:
        changes: dict[str, Any] = {"queue": self.queue, "priority": self.priority, "tags": self.tags}
        changed = replace(policy, **{name: value for name, value in changes.items() if value is not None})
        return NewJob(changed, args, self.delay, self.at, unique_key=self.unique)


def list_kinds(schema: Schema, *, after: str | None, limit: int) -> Conversation[list[KindRecord]]:
    if after is not None:
        check_name("kind", after)
    rows = yield from ask(kinds(schema, after=after, limit=limit))
    return [kind_record(row) for row in rows]


def show_kind(schema: Schema, name: str) -> Conversation[KindRecord]:
    return kind_record((yield from _found(schema, name)))


def forget(schema: Schema, name: str, *, by: str, reason: str | None) -> Conversation[None]:
    if reason is not None:
        check_text("reason", reason)
    if not (yield from ask(forget_kind(schema, name))):
        raise (yield from _not_found(schema, name))
    counts = Counter({"forgotten": 1})
    yield from ask(
        put_audit(schema, action="forget", by=by, target=f"kind {name}", reason=reason, counts=counts)
    )


def enqueue_by_name(
    schema: Schema,
    name: str,
    args: Mapping[str, Any],
    options: EnqueueOptions,
    *,
    force: bool,
    by: str,
    reason: str | None,
) -> Conversation[Enqueued]:
    """With `force`, also a kind that no worker has declared yet, whose arguments nothing can check."""
    if reason is not None:
        check_text("reason", reason)
    text = args_json(args)
    policy = Policy(name)
    known = yield from ask(kinds(schema, names=[name], limit=1))
    if known:
        check_arguments(known[0], args)
        policy = known[0].policy
    elif not force:
        raise (yield from _not_found(schema, name, _FORCED))
    [done] = yield from ask(enqueue(schema, [options.job(policy, text)], notify=True))
    counts = Counter({"enqueued" if done.is_new else "existing": 1})
    target = f"job {done.job} of kind {name}"
    yield from ask(put_audit(schema, action="enqueue", by=by, target=target, reason=reason, counts=counts))
    return done


def check_arguments(row: KindRow, args: Mapping[str, Any]) -> None:
    """A worker that cannot read its arguments fails a job again and again: refused before that."""
    complaint = complaint_about(kind_record(row).json_schema, args)
    if complaint is not None:
        raise InvalidArguments(row.name, complaint.parameter, complaint.problem)


def _found(schema: Schema, name: str) -> Conversation[KindRow]:
    check_name("kind", name)
    rows = yield from ask(kinds(schema, names=[name], limit=1))
    if not rows:
        raise (yield from _not_found(schema, name))
    return rows[0]


def _not_found(schema: Schema, name: str, advice: str = _KNOWN) -> Conversation[KindNotFound]:
    known = yield from ask(kinds(schema, limit=_MOST))
    near = get_close_matches(name, [row.name for row in known], n=3)
    return KindNotFound(name, near=_meant(near), advice=advice)


def _meant(near: list[str]) -> str:
    named = " or ".join(f'"{name}"' for name in near)
    return f"; did you mean {named}?" if near else ""
