"""`holdfast flows`: what flows and machines have done and wait for; resume, retry, cancel, send events."""

import json
import sys
from datetime import timedelta
from typing import Any

import click

from holdfast.cli import flows_output as shown
from holdfast.cli.exit_codes import Exit, refuse
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import distance
from holdfast.cli.options import length
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_table
from holdfast.cli.watching import rounds, watch_option
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

HEADS = ("ID", "KIND", "STATE", "DONE", "STEP", "NEXT", "CREATED", "ERROR")
_MOST_STEPS = 50

flow_argument = click.argument("flow", type=click.IntRange(1), metavar="ID")


@click.group()
def flows() -> None:
    """Show what flows and machines have done and wait for; resume, retry, cancel, send events."""


@flows.command("list")
@click.option("--state", type=click.Choice(JOB_STATES), help="Only flows in this state.")
@click.option(
    "--kind", metavar="KIND", help="Only flows of this kind, including those that have not started."
)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many."
)
@click.option(
    "--before", type=click.IntRange(1), metavar="ID", help="Only flows before this id, for the next page."
)
@watch_option
@where
@json_option
def list_(
    *,
    state: JobState | None,
    kind: str | None,
    limit: int,
    before: int | None,
    watch: bool,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """List flows and machines that have started, newest first."""
    is_narrowed = state is not None or kind is not None or before is not None
    with opened(dsn, schema) as app:
        for make_room in rounds(watch=watch):
            rows = app.run_sync(page_of(schema, kind=kind, state=state, before=before, limit=limit))
            make_room()
            if as_json:
                click.echo(told_as_json([summary_of(row) for row in rows]))
            elif rows:
                print_table(HEADS, [_line(row) for row in rows], flexible=("KIND", "STEP", "NEXT", "ERROR"))
            elif is_narrowed:
                click.echo("no flow matches")
            else:
                click.echo("no flow has started: enqueue one and start a worker")


def _line(row: FlowRow) -> tuple[str, ...]:
    return (
        str(row.job),
        row.kind,
        row.state,
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
    click.echo(f"{click.style(f'{record.kind} {record.id}', bold=True)}  {shown.marked(record.state)}")
    if graph:
        for line in shown.graph(record):
            click.echo(line)
        return
    for what, words in shown.facts(record):
        click.echo(f"  {what:<9}{words}")
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
@where
@json_option
def resume(flow: int, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Continue a failed flow where it stopped, with one more attempt."""
    with opened(dsn, schema) as app:
        app.flows.resume_sync(flow)
    _tell({"resumed": flow}, f"flow {flow} continues where it stopped", as_json=as_json)


@flows.command()
@flow_argument
@click.option("--from", "step", metavar="STEP", help="From this step on; without it, from the start.")
@click.option("--yes", is_flag=True, help="Do not ask, even if steps that are done will be discarded.")
@where
@json_option
def retry(flow: int, *, step: str | None, yes: bool, dsn: str | None, schema: Schema, as_json: bool) -> int:
    """Run a failed flow again from a step on, with all attempts. Steps before it stay done."""
    with opened(dsn, schema) as app:
        if not yes and (done := _done_since(app.flows.show_sync(flow), step)):
            if not sys.stdin.isatty():
                return refuse(f"flow {flow} would {_forget(done)}: give --yes to do it")
            if not click.confirm(f"flow {flow} will {_forget(done)}: continue?", err=True):
                return refuse("nothing was changed")
        app.flows.retry_sync(flow, from_step=step)
    since = "from the start" if step is None else f'from step "{step}"'
    _tell({"retried": flow, "from": step}, f"flow {flow} continues {since}", as_json=as_json)
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
@click.option("--reason", default=ON_REQUEST, metavar="TEXT", help="The reason, for the history.")
@where
@json_option
def cancel(flow: int, *, reason: str, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Cancel a flow, and the children that it waits for."""
    with opened(dsn, schema) as app:
        answer = app.flows.cancel_sync(flow, reason=reason)
    words = {
        "cancelled": f"flow {flow} is cancelled",
        "requested": f"flow {flow} is running and was asked to stop",
        "final": f"flow {flow} has already ended",
    }
    sentence = words.get(answer, f"flow {flow} is moving: try again")
    _tell({"flow": flow, "answer": answer}, sentence, as_json=as_json)


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
@where
@json_option
def emit(
    event: str, *, payload: Any, keep: timedelta, dsn: str | None, schema: Schema, as_json: bool
) -> None:
    """Send an event to the flows that wait for it, or keep it for the first that asks."""
    with opened(dsn, schema) as app:
        app.emit_sync(event, payload, keep=keep)
    sentence = (
        f'"{event}" is sent: flows that wait for it continue; if none does, it is kept for {compact(keep)}'
    )
    _tell({"emitted": event}, sentence, as_json=as_json)


def _tell(facts: dict[str, object], sentence: str, *, as_json: bool) -> None:
    click.echo(told_as_json(facts) if as_json else sentence)
