"""How a flow looks: as sentences, cells and a drawing for people, as JSON for programs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from holdfast.cli.formats import length, moment
from holdfast.cli.state_look import look, marked
from holdfast.cli.terminal import in_lines, visible
from holdfast.flows.records import FlowRecord, FlowStep

STEP_HEADS = ("STEP", "KIND", "STATE", "TRIES", "AT (UTC)", "UNTIL (UTC)", "JOB", "VALUE")
RUN_HEADS = ("RUN", "STEP", "OUTCOME", "TRY", "ENDED (UTC)", "TOOK", "ERROR")
_LATEST = 10
_MOST_CHILDREN = 8
_VALUE = 200


def short(error: dict[str, Any] | None) -> str:
    """Its type and the first line of what it says."""
    if not error:
        return ""
    words = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
    return (words or str(error.get("code", "")) or str(error.get("state", ""))).splitlines()[0]


def facts(record: FlowRecord) -> Iterator[tuple[str, str]]:
    """What `show` says, line by line."""
    yield "type", "state machine" if record.is_machine else "flow"
    if isinstance(record.args, dict) and record.args:
        yield "args", ", ".join(f"{name}={_json(value)}" for name, value in record.args.items())
    elif record.args:
        yield "args", str(record.args)  # of a kind that no worker has declared: masked as a whole
    yield "queue", record.queue
    yield "created", f"{moment(record.created_at)} UTC"
    if record.run_at is not None:
        yield "next", f"{moment(record.run_at)} UTC"
    for wait in record.waits[:_LATEST]:
        limit = "" if wait.until is None else f", until {moment(wait.until)} UTC"
        yield "waits", f"{_awaited(wait)}{limit}"
    if record.deadline_at is not None:
        yield "deadline", f"{moment(record.deadline_at)} UTC"
    if record.finished_at is not None:
        yield "ended", f"{moment(record.finished_at)} UTC"
    if record.failed_step is not None:
        yield "failed", f'at step "{record.failed_step}": {short(record.error)}'
    elif record.error is not None:
        yield "error", short(record.error)
    if record.result is not None:
        yield "result", _json(record.result)


def _awaited(wait: FlowStep) -> str:
    match wait.kind:
        case "event":
            return f'for event "{wait.event or wait.name}"'
        case "step":
            return f'to retry step "{wait.name}", after {wait.failures} failures'
        case _:
            return f'for {wait.kind} "{wait.name}"'


def step_rows(record: FlowRecord) -> list[tuple[str, ...]]:
    return [
        (
            step.name,
            "" if record.is_machine else step.kind,
            marked(step.state),
            _tries(step),
            moment(step.at),
            moment(step.until),
            "" if step.child is None else str(step.child),
            short(step.error) or _json(step.value, is_bare=True),
        )
        for step in record.steps
    ]


def _tries(step: FlowStep) -> str:
    """How often it was run, where that was more than once."""
    return str(step.failures + (step.state == "done")) if step.failures else ""


def run_rows(record: FlowRecord) -> list[tuple[str, ...]]:
    """The latest, oldest first."""
    return [
        (
            str(run.run),
            run.step or "",
            run.outcome if run.next is None else f"moved to {run.next}",
            str(run.attempt),
            moment(run.finished_at),
            "" if run.started_at is None else length(run.finished_at - run.started_at),
            short(run.error),
        )
        for run in record.history[-_LATEST:]
    ]


def graph(record: FlowRecord) -> Iterator[str]:
    """From above to below: the steps of its path, and beside it the children that were begun together."""
    width = max((len(step.name) for step in record.steps if step.child is None), default=0)
    for is_child, together in groupby(record.steps, key=lambda step: step.child is not None):
        steps = list(together)
        if is_child:
            yield from _children(steps)
        else:
            for step in steps:
                yield "│"
                yield from _drawn(f"{look(step.state)[0]} {step.name.ljust(width)}  {_detail(step, record)}")
    has_failed_step = bool(record.steps) and record.steps[-1].state == "failed"
    if record.error is not None and not has_failed_step:
        yield "│"
        yield from _drawn(f"{look(record.state)[0]} {short(record.error)}", behind="  ")
    elif record.state == "succeeded":
        yield "│"
        yield from _drawn(f"■ {_json(record.result)}", behind="  ")


def _children(children: Sequence[FlowStep]) -> Iterator[str]:
    yield "│"
    for child in children[:_MOST_CHILDREN]:
        end = f": {short(child.error)}" if child.error else ""
        yield from _drawn(f"├── {look(child.state)[0]} {child.name}  job {child.child}, {child.state}{end}")
    left = children[_MOST_CHILDREN:]
    if left:
        done = sum(child.state == "done" for child in left)
        yield f"├── … and {len(left):,} more, {done:,} of them done"


def _detail(step: FlowStep, record: FlowRecord) -> str:
    words = [] if record.is_machine or step.kind == "step" else [step.kind]
    words.append(step.state)
    tries = str(record.attempt) if record.is_machine and step.state != "done" else _tries(step)
    if tries not in ("", "0", "1"):
        words.append(f"{tries} tries")
    if step.state in ("waiting", "scheduled") and step.until is not None:
        words.append(f"until {moment(step.until)} UTC")
    value = short(step.error) or _json(step.value, is_bare=True)
    return f"{', '.join(words)}{': ' if value else ''}{value}"


def _json(value: object, *, is_bare: bool = False) -> str:
    """Short enough for a line; `is_bare`: an empty value is shown as nothing."""
    if is_bare and value in (None, {}):
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"


def _drawn(line: str, *, behind: str = "│     ") -> list[str]:
    return in_lines(visible(line), behind=behind)


def facts_of(record: FlowRecord) -> dict[str, object]:
    return asdict(record) | {"failed_step": record.failed_step}
