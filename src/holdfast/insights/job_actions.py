"""What operators do with jobs. Each action leaves an entry in the audit, in the same transaction."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from holdfast.domain.backoff import from_json
from holdfast.domain.headers import headers_of, with_headers
from holdfast.domain.job import NewJob, Policy, Target, args_json, check_ids, id_of, is_whole
from holdfast.domain.limit_keys import uses_of
from holdfast.domain.retention import Retention
from holdfast.errors import InvalidInput, JobNotFound
from holdfast.insights.job_list import find_job
from holdfast.insights.kind_actions import check_arguments
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import job_verbs, operators
from holdfast.storage.audit import check_signed, put_audit
from holdfast.storage.job_limits import limits_of_job
from holdfast.storage.jobs import enqueue
from holdfast.storage.kinds import kinds
from holdfast.worker.cancel_log import log_cancelled

Answers = dict[int, str]
Targets = Target | Sequence[Target]

_NAMED = 20


def cancel(
    schema: Schema, jobs: Targets, *, retention: Retention, reason: str, by: str
) -> Conversation[Answers]:
    ids = read_ids(jobs)
    ended = operators.cancel(
        schema, ids, retention=retention, reason=reason, on_ended=partial(log_cancelled, reason)
    )
    return (yield from _audited(schema, "cancel", ids, ended, by=by, reason=reason))


def retry(schema: Schema, jobs: Targets, *, reason: str | None, by: str) -> Conversation[Answers]:
    ids = read_ids(jobs)
    begun = operators.retry_dead(schema, ids)
    return (yield from _audited(schema, "retry", ids, begun, by=by, reason=reason))


def resume(schema: Schema, jobs: Targets, *, reason: str | None, by: str) -> Conversation[Answers]:
    ids = read_ids(jobs)
    begun = operators.resume_dead(schema, ids)
    return (yield from _audited(schema, "resume", ids, begun, by=by, reason=reason))


def reprioritise(
    schema: Schema, jobs: Targets, priority: int, *, reason: str | None, by: str
) -> Conversation[Answers]:
    ids = read_ids(jobs)
    changed = operators.reprioritise(schema, ids, priority=priority)
    action = f"reprioritise to {priority}"
    return (yield from _audited(schema, action, ids, changed, by=by, reason=reason))


def reschedule(
    schema: Schema,
    jobs: Targets,
    *,
    run_at: datetime | None,
    delay: timedelta | None,
    reason: str | None,
    by: str,
) -> Conversation[Answers]:
    ids = read_ids(jobs)
    changed = job_verbs.reschedule(schema, ids, run_at=run_at, delay=delay)
    when = f"in {delay}" if run_at is None else f"to {run_at.isoformat()}"
    return (yield from _audited(schema, f"reschedule {when}", ids, changed, by=by, reason=reason))


def move(schema: Schema, jobs: Targets, queue: str, *, reason: str | None, by: str) -> Conversation[Answers]:
    ids = read_ids(jobs)
    moved = job_verbs.move(schema, ids, queue=queue)
    return (yield from _audited(schema, f"move to {queue}", ids, moved, by=by, reason=reason))


def delete(schema: Schema, jobs: Targets, *, reason: str | None, by: str) -> Conversation[Answers]:
    ids = read_ids(jobs)
    deleted = job_verbs.delete(schema, ids)
    return (yield from _audited(schema, "delete", ids, deleted, by=by, reason=reason))


def rerun(
    schema: Schema,
    job: int,
    *,
    args: Mapping[str, Any] | None,
    reason: str | None,
    by: str,
) -> Conversation[int]:
    """A new job with the arguments, the policy and the limits of another; without its unique key, and without
    the flow that called it. Its limits are the code's by now; the keys that it was given itself stay, if
    neither arguments nor limits have changed. A mask that was left in edited arguments stands for the stored
    value.
    """
    check_signed(by, reason)
    found = yield from find_job(schema, job)
    if found is None:
        raise JobNotFound(job)
    summary, detail = found.summary, found.row
    text = detail.args
    known = yield from ask(kinds(schema, names=[summary.kind], limit=1))
    if args is not None:
        if not known:
            raise InvalidInput(
                f'no worker has told what is secret in "{summary.kind}": start one that knows it, '
                "or run the job again with the arguments that it has"
            )
        edited = known[0].redaction.restored(dict(args), json.loads(text))
        check_arguments(known[0], edited)
        text = args_json(edited)
    policy = Policy(
        summary.kind,
        summary.queue,
        summary.priority,
        summary.max_attempts,
        from_json(detail.backoff),
        detail.timeout,
        detail.keep,
        "fail" if detail.on_lost == "fail" else "retry",
        summary.tags,
        with_headers(json.dumps({"rerun_of": job}), headers_of(detail.origin)),
    )
    had = [use for each in (yield from ask(limits_of_job(schema, job))) for use in each.uses]
    if known and (args is not None or [use.limit for use in had] != [each.name for each in known[0].limits]):
        had = list(uses_of(known[0].limits, text, summary.kind))
    [new] = yield from ask(enqueue(schema, [NewJob(policy, text, limits=tuple(had))], notify=True))
    counts = Counter({"enqueued": 1})
    target = f"job {job} as job {new.job}"
    yield from ask(put_audit(schema, action="rerun", by=by, target=target, reason=reason, counts=counts))
    return new.job


def read_ids(jobs: Targets) -> list[int]:
    several: Any = [jobs] if is_whole(jobs) or hasattr(jobs, "__job_id__") else jobs
    if not isinstance(several, Collection):
        check_ids(several)
    return list(dict.fromkeys(map(id_of, several)))


def _audited(
    schema: Schema,
    action: str,
    jobs: Sequence[int],
    acting: Conversation[Answers],
    *,
    by: str,
    reason: str | None,
) -> Conversation[Answers]:
    check_signed(by, reason)
    answers = yield from acting
    if answers:
        counts = Counter(answers.values())
        target = target_of(jobs)
        yield from ask(put_audit(schema, action=action, by=by, target=target, reason=reason, counts=counts))
    return answers


def target_of(jobs: Sequence[int]) -> str:
    """How the audit names these jobs."""
    named = ", ".join(map(str, jobs[:_NAMED]))
    more = f" and {len(jobs) - _NAMED:,} more" if len(jobs) > _NAMED else ""
    return f"{'job' if len(jobs) == 1 else 'jobs'} {named}{more}"
