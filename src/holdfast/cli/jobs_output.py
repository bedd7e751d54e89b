"""How jobs look: as cells and sentences for people, as JSON for programs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click

from holdfast.cli.flows_output import mark
from holdfast.cli.formats import distance, length, moment
from holdfast.domain.traceback_frames import Frame
from holdfast.insights.explanation import Explanation
from holdfast.insights.job_records import JobDetail, JobPage, JobRun, JobSummary

HEADS = ("ID", "KIND", "STATE", "QUEUE", "TRY", "CREATED", "WHEN", "ARGS", "ERROR")
FLEXIBLE = ("KIND", "QUEUE", "ARGS", "ERROR")
RUN_HEADS = ("RUN", "TRY", "OUTCOME", "WORKER", "WAITED", "TOOK", "ENDED (UTC)", "ERROR")
_VALUE = 200


def rows(jobs: Sequence[JobSummary], now: datetime) -> list[tuple[str, ...]]:
    return [
        (
            str(job.id),
            job.kind,
            marked(job),
            job.queue,
            f"{job.attempt}/{job.max_attempts}" if job.attempt else "",
            distance(job.created_at, now),
            _when(job, now),
            _args(job),
            _first_line(str(job.error)) if job.error else "",
        )
        for job in jobs
    ]


def marked(job: JobSummary) -> str:
    word = "retrying" if job.is_retrying else job.state
    return f"{mark(job.state)} {word}" + (", parked" if job.is_parked else "")


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


def facts(detail: JobDetail, explanation: Explanation) -> Iterator[tuple[str, str]]:
    """What `show` says, line by line."""
    job = detail.summary
    yield "now", str(explanation)
    yield "queue", f"{job.queue}, priority {job.priority}"
    yield "args", _json(detail.args)
    yield "created", f"{moment(job.created_at)} UTC, {distance(job.created_at, detail.now)}"
    if job.tags:
        yield "tags", ", ".join(job.tags)
    if detail.unique_key is not None:
        yield "unique", detail.unique_key
    if job.deadline_at is not None:
        yield "deadline", f"{moment(job.deadline_at)} UTC, {distance(job.deadline_at, detail.now)}"
    if detail.schedule is not None:
        scope = f", scope {detail.scope}" if detail.scope else ""
        yield "schedule", f"{detail.schedule}{scope}, planned for {moment(detail.plan_time)} UTC"
    if job.parent is not None:
        yield "flow", f"called by job {job.parent}"
    if detail.is_flow:
        yield "steps", f"see: holdfast flows show {job.id}"
    if detail.progress is not None:
        yield "progress", _json(detail.progress)
    if detail.result is not None:
        yield "result", _json(detail.result)
    if job.flag is not None:
        yield "flag", job.flag


def run_rows(detail: JobDetail) -> list[tuple[str, ...]]:
    return [
        (
            str(run.run),
            str(run.attempt),
            run.outcome,
            "" if run.worker is None else str(run.worker),
            length(run.waited),
            length(run.took),
            moment(run.finished_at),
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


def marked_traceback(traceback: str, frames: Sequence[Frame]) -> Iterator[str]:
    own = {(frame.file, frame.line) for frame in frames if frame.is_own}
    is_own = False
    for line in traceback.rstrip().splitlines():
        if line.lstrip().startswith('File "'):
            is_own = any(f'"{file}", line {number}' in line for file, number in own)
        elif not line.startswith("    "):
            is_own = False
        yield click.style(f"  {line}", bold=True) if is_own else f"  {line}"


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


def page_facts(page: JobPage) -> dict[str, Any]:
    return {
        "jobs": [summary_facts(job) for job in page.jobs],
        "next": page.next,
        "searched": page.searched,
    }


def summary_facts(job: JobSummary) -> dict[str, Any]:
    return asdict(job)


def detail_facts(detail: JobDetail) -> dict[str, Any]:
    """One object: what a list shows, and beside it what only `show` knows."""
    told = asdict(detail)
    summary = told.pop("summary")
    told.pop("now")
    return {**summary, **told}
