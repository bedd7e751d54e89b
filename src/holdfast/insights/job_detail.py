"""Shows one job in full: its runs and errors, its result, the plan that fired it, the jobs that it called."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from holdfast.domain.failure import recorded_error
from holdfast.domain.headers import headers_of
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.redaction import Redaction, Redactions, scrubbed_value
from holdfast.domain.traceback_frames import frames_of
from holdfast.errors import JobNotFound
from holdfast.insights.explanation import explain
from holdfast.insights.gate_explanation import explain_gate
from holdfast.insights.job_list import FoundJob, find_job, list_page, shown_args
from holdfast.insights.job_logs import newest
from holdfast.insights.job_records import Explanation, JobDetail, JobLimit, JobRun, JobSummary, RunError
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.explaining import circumstances
from holdfast.storage.job_lookup import LedgerEntry, history
from holdfast.worker.fired_plan import plan_of

_CHILDREN = 100
_LOG_LINES = 50


def show_job(schema: Schema, job: int, declared: Redactions) -> Conversation[JobDetail]:
    found = yield from find_job(schema, job, declared)
    if found is None:
        raise JobNotFound(job)
    summary, detail, redaction = found.summary, found.row, found.redaction
    runs = yield from ask(history(schema, job))
    called = yield from list_page(
        schema, JobFilter(flows=(job,)), after=None, limit=_CHILDREN, declared=declared
    )
    logs, has_more_logs = yield from newest(schema, job, _LOG_LINES)
    explanation = yield from explained(schema, found)
    plan = plan_of(detail.origin)
    secrets = redaction.secrets_in(json.loads(detail.args))
    return JobDetail(
        summary=summary,
        args=shown_args(detail.args, redaction),
        headers=scrubbed_value(dict(headers_of(detail.origin)), secrets),
        result=scrubbed_value(_result(runs, redaction), secrets),
        progress=scrubbed_value(redaction.anywhere().masked(json.loads(detail.progress or "null")), secrets),
        runs=tuple(_run(entry) for entry in runs),
        unique_key=detail.unique_key,
        unique_until=detail.unique_until,
        debounced_since=detail.debounced_since,
        debounced_until=detail.debounced_until,
        timeout=detail.timeout,
        keep=detail.keep,
        schedule=plan.schedule if plan else None,
        scope=plan.scope if plan else None,
        plan_time=plan.time if plan else None,
        is_flow=detail.has_steps,
        groups=tuple(detail.groups),
        limits=_limits(found),
        children=called.jobs,
        has_more_children=called.next is not None,
        logs=logs,
        has_more_logs=has_more_logs,
        explanation=explanation,
        now=found.now,
    )


def explained(schema: Schema, found: FoundJob) -> Conversation[Explanation]:
    """Why it is not running."""
    summary = found.summary
    [around] = yield from ask(
        circumstances(
            schema,
            job=summary.id,
            kind=summary.kind,
            queue=summary.queue,
            priority=summary.priority,
            worker=summary.worker,
            unique_key=found.row.unique_key,
        )
    )
    explanation = explain(summary, around, is_flow=found.row.has_steps)
    if explanation.reason == "limit_reached":
        return (yield from explain_gate(schema, summary, explanation))
    return explanation


def _limits(found: FoundJob) -> tuple[JobLimit, ...]:
    row = found.row
    return tuple(
        JobLimit(name, key or None, _permit(found.summary, name, row.kept_limits))
        for name, key in zip(row.limits, row.limit_keys, strict=True)
    )


def _permit(job: JobSummary, limit: str, kept: Sequence[str]) -> Literal["held", "awaited"] | None:
    """It follows from where the job is: limits are passed in the order of their names."""
    match job.state:
        case "running":
            return "held"
        case "ready":
            return None if job.is_parked else "held"
        case "gated" if job.limit == limit:
            return "awaited"
        case "gated":
            return "held" if job.limit is not None and limit < job.limit else None
        case _:
            return "held" if limit in kept else None


def _result(runs: list[LedgerEntry], redaction: Redaction) -> Any:
    text = next((entry.result for entry in reversed(runs) if entry.is_final), None)
    return None if text is None else redaction.below("return").masked(json.loads(text))


def _run(entry: LedgerEntry) -> JobRun:
    return JobRun(
        run=entry.run,
        attempt=entry.attempt,
        outcome=entry.outcome,
        is_final=entry.is_final,
        worker=entry.worker,
        ready_at=entry.ready_at,
        started_at=entry.started_at,
        finished_at=entry.finished_at,
        error=_error(entry.error) if entry.error else None,
        flag=entry.flag,
    )


def _error(text: str) -> RunError:
    stored = recorded_error(text)
    traceback = stored.get("traceback")
    return RunError(
        code=str(stored.get("code", "handler_error")),
        type=stored.get("type"),
        message=str(stored.get("message", "")),
        traceback=traceback,
        causes=tuple(map(str, stored.get("causes", ()))),
        frames=frames_of(traceback) if isinstance(traceback, str) else (),
        fingerprint=stored.get("fingerprint"),
    )
