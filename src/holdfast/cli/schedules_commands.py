"""What operators do with schedules: run, pause, resume, skip, backfill, delete. Many at once need --yes."""

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast.cli import formats
from holdfast.cli import schedules_output as shown
from holdfast.cli.exit_codes import Exit, refuse
from holdfast.cli.schedules_options import name_argument, reason_option, scope_option, yes_option
from holdfast.cli.shared_options import json_option, opened, read_time, read_until, where
from holdfast.cli.table import print_table
from holdfast.postgres.schema import Schema
from holdfast.schedules.records import BackfillPlan
from holdfast.storage.schedules_plans import FiredPlan

_MOST_LINES = 20
_FATES = {"fire": "fire", "fired": "nothing: it has fired", "pruned": "nothing: its record was pruned"}


@click.command()
@name_argument
@scope_option
@reason_option
@yes_option
@where
@json_option
def run(
    name: str,
    *,
    scope: str | None,
    reason: str | None,
    yes: bool,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> int:
    """Fire now, even if the schedule is paused. Its plans do not change."""
    with opened(dsn, schema) as app:
        scopes = app.schedules.get_sync(name).scopes
        if scope is None and scopes > 1 and not yes:
            return refuse(f'"{name}" has {scopes:,} scopes: give --scope for one, or --yes for all of them')
        fired = app.schedules.run_now_sync(name, scope=scope, reason=reason)
    _tell_fired(fired, as_json=as_json)
    return Exit.OK


@click.command()
@name_argument
@click.option(
    "--until",
    callback=read_until,
    metavar="TIME",
    help="Until a time, or for a length such as 2h; without it, until you resume it.",
)
@click.option("--note", metavar="TEXT", help="Why it is paused, shown to other operators.")
@where
@json_option
def pause(
    name: str,
    *,
    until: datetime | str | None,
    note: str | None,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Stop a schedule from firing. Plans in a pause are skipped, not caught up later."""
    with opened(dsn, schema) as app:
        app.schedules.pause_sync(name, note=note, until=until)
        paused = app.schedules.get_sync(name)
    if as_json:
        click.echo(formats.as_json(shown.schedule_facts(paused)))
    else:
        click.echo(f'"{name}" is paused until {shown.pause_end(paused)}')


@click.command()
@name_argument
@where
@json_option
def resume(name: str, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Let a paused schedule fire again."""
    with opened(dsn, schema) as app:
        was_paused = app.schedules.resume_sync(name)
        resumed = app.schedules.get_sync(name)
        times = app.schedules.next_times_sync(name, count=1) if resumed.timing else []
    if as_json:
        click.echo(formats.as_json(shown.schedule_facts(resumed)))
    elif was_paused:
        click.echo(f'"{name}" fires again' + (f", next at {formats.moment(times[0])} UTC" if times else ""))
    else:
        click.echo(f'"{name}" was not paused')


@click.command()
@name_argument
@click.option(
    "-n",
    "--count",
    type=click.IntRange(0, 10_000),
    default=1,
    show_default=True,
    help="How many plans; 0 undoes it.",
)
@scope_option
@where
@json_option
def skip(name: str, *, count: int, scope: str | None, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Skip the next plan."""
    with opened(dsn, schema) as app:
        skipped = app.schedules.skip_next_sync(name, count=count, scope=scope)
    if as_json:
        click.echo(formats.as_json([{"scope": of, "time": time} for of, time in skipped]))
    elif skipped:
        _print_some(("PLAN (UTC)", "SCOPE"), [(formats.moment(time), of) for of, time in skipped])
        click.echo(f'"{name}" will skip {_many(len(skipped), "plan")}')
    else:
        click.echo(f'"{name}" will skip nothing')


@click.command()
@name_argument
@click.option(
    "--from", "first", callback=read_time, required=True, metavar="TIME", help="The first plan time."
)
@click.option(
    "--to",
    "last",
    callback=read_time,
    required=True,
    metavar="TIME",
    help="The last plan time; must be in the past.",
)
@scope_option
@reason_option
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would fire.")
@yes_option
@where
@json_option
def backfill(
    name: str,
    *,
    first: datetime,
    last: datetime,
    scope: str | None,
    reason: str | None,
    dry_run: bool,
    yes: bool,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> int:
    """Fire the plans of a past range that have not fired, all or none.

    Times are in UTC unless they have an offset. Without --yes it only shows what it would do.
    """
    with opened(dsn, schema) as app:
        if dry_run or not yes:
            planned = app.schedules.preview_sync(name, first, last, scope=scope)
            return _tell_planned(name, planned, is_asked=dry_run, as_json=as_json)
        fired = app.schedules.backfill_sync(name, first, last, scope=scope, reason=reason)
    _tell_fired(fired, as_json=as_json)
    return Exit.OK


def _tell_planned(name: str, planned: Sequence[BackfillPlan], *, is_asked: bool, as_json: bool) -> int:
    if as_json:
        click.echo(formats.as_json(list(planned)))
    else:
        rows = [(formats.moment(plan.time), plan.scope, _FATES[plan.fate]) for plan in planned]
        _print_some(("PLAN (UTC)", "SCOPE", "WOULD"), rows)
    count = sum(plan.fate == "fire" for plan in planned)
    sentence = f'"{name}" would fire {_many(count, "plan")} of {len(planned):,} in this range'
    if is_asked:
        if not as_json:
            click.echo(sentence)
        return Exit.OK
    return refuse(f"{sentence}: give --yes to fire them")


def _tell_fired(fired: Sequence[FiredPlan], *, as_json: bool) -> None:
    if as_json:
        facts = [{"scope": plan.scope, "time": plan.plan_time, "job": plan.job} for plan in fired]
        click.echo(formats.as_json(facts))
    else:
        rows = [(formats.moment(plan.plan_time), plan.scope, str(plan.job)) for plan in fired]
        _print_some(("PLAN (UTC)", "SCOPE", "JOB"), rows)
        click.echo(f"fired {_many(len(fired), 'job')}")


@click.command()
@name_argument
@yes_option
@where
@json_option
def delete(name: str, *, yes: bool, dsn: str | None, schema: Schema, as_json: bool) -> int:
    """Delete a schedule; its plans and jobs stay. A declared one returns when a worker starts."""
    with opened(dsn, schema) as app:
        known = app.schedules.get_sync(name)
        if not yes:
            return refuse(f'"{name}" ({known.described}) would be deleted: give --yes to do it')
        app.schedules.delete_sync(name)
    click.echo(formats.as_json({"deleted": name}) if as_json else f'"{name}" is deleted')
    return Exit.OK


def _print_some(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first rows, as many as a reader takes in; the sentence after them has the total."""
    if rows:
        print_table(heads, rows[:_MOST_LINES], flexible=("SCOPE",))
    if len(rows) > _MOST_LINES:
        click.echo(f"… and {len(rows) - _MOST_LINES:,} more")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


VERBS = (run, pause, resume, skip, backfill, delete)
