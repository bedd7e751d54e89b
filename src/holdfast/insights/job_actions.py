"""What operators do with jobs. Each action leaves an entry in the audit, in the same transaction."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from holdfast.domain.backoff import from_json
from holdfast.domain.job import NewJob, Policy, args_json, check_ids, check_text
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.retention import Retention
from holdfast.errors import InvalidInput, JobNotFound
from holdfast.insights.job_list import list_page
from holdfast.insights.kind_actions import check_arguments
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import job_verbs, operators
from holdfast.storage.audit import put_audit
from holdfast.storage.job_lookup import job_detail
from holdfast.storage.jobs import enqueue
from holdfast.storage.kinds import kinds
from holdfast.worker.cancel_log import log_cancelled

Answers = dict[int, str]

PYTHON = "python"
"""Who acts, unless the caller says so."""
_NAMED = 20


def cancel(
    schema: Schema, jobs: int | Sequence[int], *, retention: Retention, reason: str, by: str
) -> Conversation[Answers]:
    ids = read_ids(jobs)
    ended = operators.cancel(
        schema, ids, retention=retention, reason=reason, on_ended=partial(log_cancelled, reason)
    )
    return (yield from _audited(schema, "cancel", ids, ended, by=by, reason=reason))


def retry(
    schema: Schema, jobs: int | Sequence[int], *, reason: str | None, by: str, of: str | None = None
) -> Conversation[Answers]:
    """`of`: what these jobs are a part of, such as a group of failures."""
    ids = read_ids(jobs)
    begun = operators.retry_dead(schema, ids)
    return (yield from _audited(schema, "retry", ids, begun, by=by, reason=reason, of=of))


def resume(
    schema: Schema, jobs: int | Sequence[int], *, reason: str | None, by: str
) -> Conversation[Answers]:
    ids = read_ids(jobs)
    begun = operators.resume_dead(schema, ids)
    return (yield from _audited(schema, "resume", ids, begun, by=by, reason=reason))


def reprioritise(
    schema: Schema, jobs: int | Sequence[int], priority: int, *, reason: str | None, by: str
) -> Conversation[Answers]:
    ids = read_ids(jobs)
    changed = operators.reprioritise(schema, ids, priority=priority)
    action = f"reprioritise to {priority}"
    return (yield from _audited(schema, action, ids, changed, by=by, reason=reason))


def reschedule(
    schema: Schema,
    jobs: int | Sequence[int],
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


def move(
    schema: Schema, jobs: int | Sequence[int], queue: str, *, reason: str | None, by: str
) -> Conversation[Answers]:
    ids = read_ids(jobs)
    moved = job_verbs.move(schema, ids, queue=queue)
    return (yield from _audited(schema, f"move to {queue}", ids, moved, by=by, reason=reason))


def delete(
    schema: Schema, jobs: int | Sequence[int], *, reason: str | None, by: str, of: str | None = None
) -> Conversation[Answers]:
    ids = read_ids(jobs)
    deleted = job_verbs.delete(schema, ids)
    return (yield from _audited(schema, "delete", ids, deleted, by=by, reason=reason, of=of))


def rerun(
    schema: Schema,
    job: int,
    *,
    args: Mapping[str, Any] | None,
    reason: str | None,
    by: str,
) -> Conversation[int]:
    """A new job with the arguments and the policy of another; without its unique key, and without the flow
    that called it. A mask that was left in edited arguments stands for the stored value.
    """
    check_ids([job])
    page = yield from list_page(schema, JobFilter(ids=(job,)), after=None, limit=1)
    more = yield from ask(job_detail(schema, job))
    if not page.jobs or not more:
        raise JobNotFound(job)
    [summary], [detail] = page.jobs, more
    text = detail.args
    if args is not None:
        known = yield from ask(kinds(schema, names=[summary.kind], limit=1))
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
        json.dumps({"rerun_of": job}),
    )
    [new] = yield from ask(enqueue(schema, [NewJob(policy, text)], notify=True))
    counts = Counter({"enqueued": 1})
    target = f"job {job} as job {new.job}"
    yield from ask(put_audit(schema, action="rerun", by=by, target=target, reason=reason, counts=counts))
    return new.job


def read_ids(jobs: int | Sequence[int]) -> list[int]:
    ids = [jobs] if isinstance(jobs, int) and not isinstance(jobs, bool) else jobs
    check_ids(ids)
    return list(dict.fromkeys(ids))  # type: ignore[arg-type]  # checked above


def _audited(
    schema: Schema,
    action: str,
    jobs: Sequence[int],
    acting: Conversation[Answers],
    *,
    by: str,
    reason: str | None,
    of: str | None = None,
) -> Conversation[Answers]:
    if reason is not None:
        check_text("reason", reason)
    answers = yield from acting
    if answers:
        counts = Counter(answers.values())
        target = _target(jobs) if of is None else f"{of}: {_target(jobs)}"
        yield from ask(put_audit(schema, action=action, by=by, target=target, reason=reason, counts=counts))
    return answers


def _target(jobs: Sequence[int]) -> str:
    named = ", ".join(map(str, jobs[:_NAMED]))
    more = f" and {len(jobs) - _NAMED:,} more" if len(jobs) > _NAMED else ""
    return f"{'job' if len(jobs) == 1 else 'jobs'} {named}{more}"
