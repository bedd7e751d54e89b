"""How jobs look: as cells and sentences for people, as JSON for programs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from shlex import quote
from typing import Any, assert_never

import click

from holdfast.cli.formats import ENDED, age, distance, length, moment
from holdfast.cli.log_output import clock, log_text
from holdfast.cli.state_look import Cell, marked, outcome_of
from holdfast.cli.table import Columns
from holdfast.cli.terminal import visible
from holdfast.cli.wording import spoken
from holdfast.domain.redaction import MASK
from holdfast.domain.traceback_frames import Frame
from holdfast.insights.job_records import JobDetail, JobLimit, JobPage, JobRun, JobSummary

COLUMNS = Columns(
    ("ID", "KIND", "STATE", "QUEUE", "TRY", "CREATED", "WHEN", "ARGS", "ERROR"),
    flexible=("ARGS", "ERROR", "KIND", "QUEUE"),
    spare=("CREATED", "QUEUE", "TRY"),
)
RUN_COLUMNS = Columns(
    ("RUN", "TRY", "OUTCOME", "WORKER", "WAITED", "TOOK", ENDED, "ERROR"),
    flexible=("ERROR",),
    spare=("WORKER",),
)
_VALUE = 200
_LOG_LINES = 20
_MASKED_WHOLE = f"{MASK}: all of them, until a worker has declared this kind, and with it which are secret"


def rows(jobs: Sequence[JobSummary], now: datetime) -> list[tuple[str, ...]]:
    return [
        (
            str(job.id),
            job.kind,
            state_of(job),
            job.queue,
            f"{job.attempt}/{job.max_attempts}" if job.attempt else "",
            distance(job.created_at, now),
            _when(job, now),
            _args(job),
            _first_line(str(job.error)) if job.error else "",
        )
        for job in jobs
    ]


def state_of(job: JobSummary) -> Cell:
    return marked("retrying" if job.is_retrying else job.state, ", parked" if job.is_parked else "")


def _when(job: JobSummary, now: datetime) -> str:
    """The one moment that matters: when it runs, since when it runs, when it ended."""
    if job.finished_at is not None:
        return f"ended {distance(job.finished_at, now)}"
    if job.state == "running" and job.started_at is not None:
        return f"for {length(now - job.started_at)}"
    if job.run_at is not None:
        return "due now" if job.run_at <= now else distance(job.run_at, now)
    return "" if job.ready_at is None else f"waits {length(now - job.ready_at)}"


def _args(job: JobSummary) -> str:
    return f"({job.args_size:,} bytes)" if job.args is None else _json(job.args)


def facts(detail: JobDetail) -> Iterator[tuple[str, str]]:
    """What `show` says, line by line."""
    job = detail.summary
    yield "now", spoken(str(detail.explanation))
    yield "queue", f"{job.queue}, priority {job.priority}"
    yield "args", _MASKED_WHOLE if detail.args == MASK else _json(detail.args)
    yield "created", f"{moment(job.created_at)} UTC, {distance(job.created_at, detail.now)}"
    yield from _given(detail)
    if detail.is_flow:
        yield "steps", f"see: holdfast flows show {job.id}"
    if detail.progress is not None:
        yield "progress", _json(detail.progress)
    if detail.result is not None:
        yield "result", _json(detail.result)
    if job.flag is not None:
        yield "flag", job.flag


def _given(detail: JobDetail) -> Iterator[tuple[str, str]]:
    """What came with it when it was enqueued, beside its arguments."""
    job = detail.summary
    if detail.headers:
        yield "headers", _json(detail.headers)
    if job.tags:
        yield "tags", ", ".join(job.tags)
    if detail.unique_key is not None:
        until = detail.unique_until
        held = "" if until is None else f", held until {moment(until)} UTC, {distance(until, detail.now)}"
        yield "unique", f"{detail.unique_key}{held}"
    if detail.debounced_since is not None:
        yield "debounce", _debounced(detail.debounced_since, detail.debounced_until, detail.now)
    if job.deadline_at is not None:
        yield "deadline", f"{moment(job.deadline_at)} UTC, {distance(job.deadline_at, detail.now)}"
    if detail.schedule is not None:
        scope = f", scope {detail.scope}" if detail.scope else ""
        yield "schedule", f"{detail.schedule}{scope}, planned for {moment(detail.plan_time)} UTC"
    for limit in detail.limits:
        yield "limit", _limited(limit)
    for group in detail.groups:
        yield "group", f"{group}, see: holdfast groups show {group}"
    if job.parent is not None and job.parent not in detail.groups:
        yield "flow", f"called by job {job.parent}"


def _limited(limit: JobLimit) -> str:
    name = limit.name if limit.key is None else f"{limit.name}, key {limit.key}"
    match limit.permit:
        case "held":
            return f"{name}: holds a permit"
        case "awaited":
            only = "" if limit.key is None else f" --key {quote(limit.key)}"
            return f"{name}: waits at the gate, see: holdfast limits show {quote(limit.name)}{only}"
        case None:
            return f"{name}: needs no permit now"
        case _ as never:
            assert_never(never)


def _debounced(since: datetime, until: datetime | None, now: datetime) -> str:
    latest = "" if until is None else f", until {moment(until)} UTC at the latest, {distance(until, now)}"
    return f"since {moment(since)} UTC, {distance(since, now)}{latest}"


def run_rows(detail: JobDetail) -> list[tuple[str, ...]]:
    return [
        (
            str(run.run),
            str(run.attempt),
            outcome_of(run.outcome),
            "" if run.worker is None else str(run.worker),
            length(run.waited),
            length(run.took),
            age(run.finished_at, detail.now),
            _error(run),
        )
        for run in detail.runs
    ]


def traceback_lines(detail: JobDetail) -> Iterator[str]:
    """The traceback of the last run that failed, with the lines of the user's own code in bold."""
    error = next((run.error for run in reversed(detail.runs) if run.error is not None), None)
    if error is None or error.traceback is None:
        return
    yield ""
    yield from marked_traceback(error.traceback, error.frames)


def last_log_lines(detail: JobDetail) -> Iterator[str]:
    """The newest of the kept log lines."""
    lines = detail.logs[-_LOG_LINES:]
    if not lines:
        return
    yield ""
    if detail.has_more_logs or len(lines) < len(detail.logs):
        yield f"the last {len(lines)} log lines; all of them: holdfast jobs tail {detail.summary.id}"
    for line in lines:
        yield from log_text(line, f"  {clock(line.time)}  ")


def marked_traceback(traceback: str, frames: Sequence[Frame]) -> Iterator[str]:
    own = {(frame.file, frame.line) for frame in frames if frame.is_own}
    is_own = False
    for line in traceback.rstrip().splitlines():
        if line.lstrip().startswith('File "'):
            is_own = any(f'"{file}", line {number}' in line for file, number in own)
        elif not line.startswith("    "):
            is_own = False
        yield click.style(f"  {visible(line)}", bold=True) if is_own else f"  {visible(line)}"


def _error(run: JobRun) -> str:
    if run.error is None:
        return ""
    return _first_line(
        ": ".join(part for part in (run.error.type, run.error.message) if part) or run.error.code
    )


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"


def note(page: JobPage) -> str | None:
    if page.searched is None:
        return None
    return f"{len(page.jobs):,} found among {page.searched:,} jobs: there may be older ones"


def detail_facts(detail: JobDetail) -> dict[str, Any]:
    """One object: what a list shows, and beside it what only `show` knows."""
    told = asdict(detail)
    summary = told.pop("summary")
    told.pop("now")
    return {**summary, **told}
