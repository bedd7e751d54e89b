"""How what happens to jobs looks: as lines for people, as JSON for programs."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, assert_never

import click

from holdfast.cli.formats import length
from holdfast.cli.log_output import clock, log_text
from holdfast.cli.state_look import look
from holdfast.cli.terminal import visible
from holdfast.insights.tail_records import RunEnded, RunLogged, RunStarted, TailEvent


def event_lines(event: TailEvent, *, has_job: bool) -> Iterator[str]:
    """`has_job`: say which job it is."""
    start = f"{clock(event.time)}  " + (f"{visible(event.job.kind)} {event.job.id}  " if has_job else "")
    match event:
        case RunStarted():
            icon, style = look("running")
            attempt = f"attempt {event.attempt} of {event.job.max_attempts}"
            worker = "" if event.worker is None else f" on worker {event.worker}"
            yield f"{start}{_styled(f'{icon} started', style)}, {attempt}{worker}"
        case RunLogged(line=line):
            yield from log_text(line, start)
        case RunEnded():
            yield f"{start}{_ended(event)}"
        case _:
            assert_never(event)


def event_facts(event: TailEvent) -> dict[str, Any]:
    """One flat object."""
    told = asdict(event)
    job = event.job
    about = {"time": told.pop("time"), "job": job.id, "kind": job.kind, "queue": job.queue}
    del told["job"]
    match event:
        case RunStarted():
            return {"event": "started", **about, **told, "max_attempts": job.max_attempts}
        case RunLogged():
            line = told["line"]
            del line["time"]
            return {"event": "log", **about, **line}
        case RunEnded():
            return {"event": "ended", **about, **told, "max_attempts": job.max_attempts}
        case _:
            assert_never(event)


def _ended(event: RunEnded) -> str:
    match event.outcome:
        case "retried" | "snoozed" | "released":
            icon, style = look("retrying")
        case _:
            icon, style = look(event.outcome)
    took = "" if event.took is None else f" after {length(event.took)}"
    flag = f" ({event.flag})" if event.flag else ""
    said = str(event.error) if event.error and event.outcome != "succeeded" else ""
    reason = f": {visible(said.splitlines()[0])}" if said else ""
    return f"{_styled(f'{icon} {event.outcome}', style)}{took}{flag}{reason}"


def _styled(text: str, style: str) -> str:
    return click.style(text, dim=True) if style == "dim" else click.style(text, fg=style or None)
