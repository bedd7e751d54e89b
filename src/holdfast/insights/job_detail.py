"""Shows one job in full: its runs and errors, its result, the plan that fired it, the jobs that it called."""

import json
from collections.abc import Mapping
from typing import Any

from holdfast.domain.failure import recorded_error
from holdfast.domain.job import check_ids
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.redaction import Redaction, scrubbed_value
from holdfast.domain.traceback_frames import frames_of
from holdfast.errors import JobNotFound
from holdfast.insights.job_list import list_page, shown_args
from holdfast.insights.job_records import JobDetail, JobRun, RunError
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.job_lookup import LedgerEntry, history, job_detail
from holdfast.storage.kinds import redactions
from holdfast.worker.fired_plan import plan_of

_CHILDREN = 100


def show_job(schema: Schema, job: int, declared: Mapping[str, Redaction]) -> Conversation[JobDetail]:
    check_ids([job])
    page = yield from list_page(schema, JobFilter(ids=(job,)), after=None, limit=1, declared=declared)
    more = yield from ask(job_detail(schema, job))
    if not page.jobs or not more:
        raise JobNotFound(job)
    [detail], [summary] = more, page.jobs
    redaction = (yield from redactions(schema, [summary.kind], declared))[summary.kind]
    runs = yield from ask(history(schema, job))
    called = yield from list_page(
        schema, JobFilter(flows=(job,)), after=None, limit=_CHILDREN, declared=declared
    )
    plan = plan_of(detail.origin)
    return JobDetail(
        summary=summary,
        args=shown_args(detail.args, redaction),
        result=_result(runs, redaction),
        progress=scrubbed_value(
            json.loads(detail.progress or "null"), redaction.secrets_in(json.loads(detail.args))
        ),
        runs=tuple(_run(entry) for entry in runs),
        unique_key=detail.unique_key,
        timeout=detail.timeout,
        keep=detail.keep,
        schedule=plan.schedule if plan else None,
        scope=plan.scope if plan else None,
        plan_time=plan.time if plan else None,
        is_flow=detail.has_steps,
        children=called.jobs,
        has_more_children=called.next is not None,
        now=page.now,
    )


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
