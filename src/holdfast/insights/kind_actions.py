"""What operators do with kinds: look one up, enqueue a job by its name, forget one."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from holdfast.domain.job import NewJob, Policy, args_json, check_name
from holdfast.domain.limit_keys import KindLimit, uses_of
from holdfast.domain.parameters import complaint_about
from holdfast.domain.redaction import NOTHING
from holdfast.domain.uniqueness import Uniqueness, stored_key
from holdfast.errors import InvalidArguments, InvalidInput, KindNotFound
from holdfast.insights.kind_records import KindRecord, kind_record
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import check_signed, put_audit
from holdfast.storage.jobs import Enqueued, enqueue_many
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
    debounce: timedelta | None = None
    max_wait: timedelta | None = None
    unique_for: timedelta | None = None

    def __post_init__(self) -> None:
        Uniqueness(
            unique=self.unique, debounce=self.debounce, max_wait=self.max_wait, unique_for=self.unique_for
        ).check()
        if self.debounce is not None and (self.delay is not None or self.at is not None):
            raise InvalidInput("debounce says when the job runs: leave out delay and at")

    def job(self, policy: Policy, args: str, secrets: Sequence[str], limits: Sequence[KindLimit]) -> NewJob:
        changes: dict[str, Any] = {"queue": self.queue, "priority": self.priority, "tags": self.tags}
        changed = replace(policy, **{name: value for name, value in changes.items() if value is not None})
        key = None if self.unique is None else stored_key(self.unique, kind=policy.kind, secrets=secrets)
        return NewJob(
            changed,
            args,
            self.delay,
            self.at,
            unique_key=key,
            debounce=self.debounce,
            max_wait=self.max_wait,
            unique_for=self.unique_for,
            limits=uses_of(limits, args, policy.kind),
        )


def list_kinds(schema: Schema, *, after: str | None, limit: int) -> Conversation[list[KindRecord]]:
    if after is not None:
        check_name("kind", after)
    rows = yield from ask(kinds(schema, after=after, limit=limit))
    return [kind_record(row) for row in rows]


def show_kind(schema: Schema, name: str) -> Conversation[KindRecord]:
    return kind_record((yield from _found(schema, name)))


def forget(schema: Schema, name: str, *, by: str, reason: str | None) -> Conversation[None]:
    check_signed(by, reason)
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
    check_signed(by, reason)
    text = args_json(args)
    policy, redaction = Policy(name), NOTHING
    limits: Sequence[KindLimit] = ()
    known = yield from ask(kinds(schema, names=[name], limit=1))
    if known:
        check_arguments(known[0], args)
        policy, redaction, limits = known[0].policy, known[0].redaction, known[0].limits
    elif not force:
        raise (yield from _not_found(schema, name, _FORCED))
    new = options.job(policy, text, redaction.secrets_in(json.loads(text)), limits)
    [done] = yield from enqueue_many(schema, [new])
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
