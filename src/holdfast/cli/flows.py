"""`holdfast flows`: what flows and machines have done and wait for; resume, retry, cancel, send events."""

import json
import sys
from datetime import timedelta
from typing import Any

import click

from holdfast.app import App
from holdfast.cli import flows_output as shown
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit, refuse
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import distance
from holdfast.cli.listing import Listed, listing
from holdfast.cli.options import WholeNumber, length
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.state_look import marked
from holdfast.cli.table import Columns, print_facts, print_table
from holdfast.domain.duration import compact
from holdfast.domain.job import check_key
from holdfast.domain.outcome import ON_REQUEST
from holdfast.domain.retention import EVENTS
from holdfast.domain.states import JOB_STATES, JobState
from holdfast.errors import InvalidInput
from holdfast.flows.records import FlowRecord, summary_of
from holdfast.postgres.schema import Schema
from holdfast.storage.flows_shown import FlowRow
from holdfast.storage.flows_shown import flows as page_of

COLUMNS = Columns(
    ("ID", "KIND", "STATE", "DONE", "STEP", "NEXT", "CREATED", "ERROR"),
    flexible=("KIND", "STEP", "NEXT", "ERROR"),
    spare=("CREATED", "DONE"),
)
_MOST_STEPS = 50

flow_argument = click.argument("flow", type=WholeNumber(1), metavar="ID")


@click.group()
def flows() -> None:
    """Show what flows and machines have done and wait for; resume, retry, cancel, send events."""


@flows.command("list")
@click.option("--state", type=click.Choice(JOB_STATES), help="Only flows in this state.")
@click.option(
    "--kind", metavar="KIND", help="Only flows of this kind, including those that have not started."
)
@click.option(
    "--before", type=WholeNumber(1), metavar="ID", help="Only flows before this id, for the next page."
)
@listing()
def list_(app: App, *, state: JobState | None, kind: str | None, limit: int, before: int | None) -> Listed:
    """List flows and machines that have started, newest first."""
    rows = app.run_sync(page_of(app.schema, kind=kind, state=state, before=before, limit=limit))
    is_narrowed = state is not None or kind is not None or before is not None
    return Listed(
        COLUMNS,
        [_line(row) for row in rows],
        items=[summary_of(row) for row in rows],
        empty="no flow matches" if is_narrowed else "no flow has started: enqueue one and start a worker",
    )


def _line(row: FlowRow) -> tuple[str, ...]:
    return (
        str(row.job),
        row.kind,
        marked(row.state),
        f"{row.done:,}",
        row.step or "",
        _next(row),
        distance(row.created_at, row.now),
        shown.short(summary_of(row).error),
    )


def _next(row: FlowRow) -> str:
    """`in 5m`; for a flow that waits, `for packed:42`, with the time at which it continues without that."""
    if row.state not in ("waiting", "scheduled"):
        return ""
    time = distance(row.until, row.now)
    if row.waits_for is None:
        return time
    return f"for {row.waits_for}" + (f", else {time}" if time else "")


@flows.command()
@flow_argument
@click.option("--graph", is_flag=True, help="Draw the path that it has taken.")
@where
@json_option
def show(flow: int, *, graph: bool, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Show one flow in full: its steps, waits, children and history."""
    with opened(dsn, schema) as app:
        record = app.flows.show_sync(flow)
    if as_json:
        click.echo(told_as_json(shown.facts_of(record)))
        return
    title = (f"{record.kind} {record.id}", marked(record.state))
    if graph:
        print_facts(title, ())
        for line in shown.graph(record):
            click.echo(line)
        return
    print_facts(title, shown.facts(record))
    if record.steps:
        click.echo("")
        rows = shown.step_rows(record)
        print_table(shown.STEP_HEADS, rows[:_MOST_STEPS], flexible=("STEP", "VALUE"))
        if len(rows) > _MOST_STEPS:
            click.echo(f"… and {len(rows) - _MOST_STEPS:,} more: --json has all of them")
    if record.history:
        click.echo("")
        print_table(shown.RUN_HEADS, shown.run_rows(record), flexible=("STEP", "OUTCOME", "ERROR"))


@flows.command()
@flow_argument
@changing(asks=False)
def resume(flow: int, *, change: Change) -> None:
    """Continue a failed flow where it stopped, with one more attempt."""
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        app.flows.resume_sync(flow, reason=change.reason, by=change.by)
    _tell({"resumed": flow}, f"flow {flow} continues where it stopped", as_json=change.as_json)


@flows.command()
@flow_argument
@click.option("--from", "step", metavar="STEP", help="From this step on; without it, from the start.")
@changing()
def retry(flow: int, *, step: str | None, change: Change) -> int:
    """Run a failed flow again from a step on, with all attempts. Steps before it stay done."""
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        if not change.is_confirmed and (done := _done_since(app.flows.show_sync(flow), step)):
            if not sys.stdin.isatty():
                return refuse(f"flow {flow} would {_forget(done)}: give --yes to do it")
            if not click.confirm(f"flow {flow} will {_forget(done)}: continue?", err=True):
                return refuse("nothing was changed")
        app.flows.retry_sync(flow, from_step=step, reason=change.reason, by=change.by)
    since = "from the start" if step is None else f'from step "{step}"'
    _tell({"retried": flow, "from": step}, f"flow {flow} continues {since}", as_json=change.as_json)
    return Exit.OK


def _forget(done: list[str]) -> str:
    if len(done) == 1:
        return f'discard the result of step "{done[0]}" and run it again'
    return f"discard the results of {len(done):,} finished steps and run them again"


def _done_since(record: FlowRecord, step: str | None) -> list[str]:
    """Steps that are done and would not be any more; none if there is nothing to retry."""
    names = [each.name for each in record.steps]
    if record.state != "failed" or step not in {None, *names}:
        return []
    since = 0 if step is None else names.index(step)
    return [each.name for each in record.steps[since:] if each.state == "done"]


@flows.command()
@flow_argument
@changing(asks=False)
def cancel(flow: int, *, change: Change) -> None:
    """Cancel a flow, and the children that it waits for. Its history keeps the reason, too."""
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        answer = app.flows.cancel_sync(flow, reason=change.reason or ON_REQUEST, by=change.by)
    words = {
        "cancelled": f"flow {flow} is cancelled",
        "requested": f"flow {flow} is running and was asked to stop",
        "final": f"flow {flow} has already ended",
    }
    sentence = words.get(answer, f"flow {flow} is moving: try again")
    _tell({"flow": flow, "answer": answer}, sentence, as_json=change.as_json)


def _payload(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except ValueError as error:
        raise click.BadParameter(
            f'{value!r} is not JSON ({error}): write {{"by": "eve"}}, 42 or \'"text"\'', ctx, param
        ) from None


def _event(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        check_key(value, what="event")
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return value


@flows.command()
@click.argument("event", callback=_event)
@click.argument("payload", required=False, callback=_payload, metavar="[JSON]")
@click.option(
    "--keep",
    callback=length,
    default=compact(EVENTS),
    show_default=True,
    metavar="LENGTH",
    help="How long it is kept if no flow waits for it.",
)
@changing(asks=False)
def emit(event: str, *, payload: Any, keep: timedelta, change: Change) -> None:
    """Send an event to the flows that wait for it, or keep it for the first that asks."""
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        app.flows.emit_sync(event, payload, keep=keep, reason=change.reason, by=change.by)
    sentence = (
        f'"{event}" is sent: flows that wait for it continue; if none does, it is kept for {compact(keep)}'
    )
    _tell({"emitted": event}, sentence, as_json=change.as_json)


def _tell(facts: dict[str, object], sentence: str, *, as_json: bool) -> None:
    click.echo(told_as_json(facts) if as_json else sentence)
