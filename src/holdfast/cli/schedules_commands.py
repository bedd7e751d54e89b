"""What operators do with schedules: run, pause, resume, skip, backfill, delete. Many at once need --yes."""

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast.cli import formats
from holdfast.cli import schedules_output as shown
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit, refuse
from holdfast.cli.formats import how_many
from holdfast.cli.operations import by_option
from holdfast.cli.options import WholeNumber
from holdfast.cli.progress import progress
from holdfast.cli.schedules_options import name_argument, scope_option
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
@changing()
def run(name: str, *, scope: str | None, change: Change) -> int:
    """Fire now, even if the schedule is paused. Its plans do not change."""
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        scopes = app.schedules.get_sync(name).scopes
        if scope is None and scopes > 1 and not change.is_confirmed:
            return refuse(f'"{name}" has {scopes:,} scopes: give --scope for one, or --yes for all of them')
        fired = app.schedules.run_now_sync(name, scope=scope, reason=change.reason, by=change.by)
    _tell_fired(fired, as_json=change.as_json)
    return Exit.OK


@click.command()
@name_argument
@click.option(
    "--until",
    callback=read_until,
    metavar="TIME",
    help="Until a time, or for a length such as 2h; without it, until you resume it.",
)
@click.option("--note", metavar="TEXT", help="Why it is paused, shown to other operators; in the audit, too.")
@by_option
@where
@json_option
def pause(
    name: str,
    *,
    until: datetime | str | None,
    note: str | None,
    by: str,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Stop a schedule from firing. Plans in a pause are skipped, not caught up later."""
    with opened(dsn, schema) as app:
        app.schedules.pause_sync(name, note=note, until=until, by=by)
        paused = app.schedules.get_sync(name)
    if as_json:
        click.echo(formats.as_json(shown.schedule_facts(paused)))
    else:
        click.echo(f'"{name}" is paused until {shown.pause_end(paused)}')


@click.command()
@name_argument
@changing(asks=False)
def resume(name: str, *, change: Change) -> None:
    """Let a paused schedule fire again."""
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        was_paused = app.schedules.resume_sync(name, reason=change.reason, by=change.by)
        resumed = app.schedules.get_sync(name)
        times = app.schedules.next_times_sync(name, count=1) if resumed.timing else []
    if change.as_json:
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
    type=WholeNumber(0, 10_000),
    default=1,
    show_default=True,
    help="How many plans; 0 undoes it.",
)
@scope_option
@changing(asks=False)
def skip(name: str, *, count: int, scope: str | None, change: Change) -> None:
    """Skip the next plan."""
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        skipped = app.schedules.skip_next_sync(
            name, count=count, scope=scope, reason=change.reason, by=change.by
        )
    if change.as_json:
        click.echo(formats.as_json([{"scope": of, "time": time} for of, time in skipped]))
    elif skipped:
        _print_some(("PLAN (UTC)", "SCOPE"), [(formats.moment(time), of) for of, time in skipped])
        click.echo(f'"{name}" will skip {how_many(len(skipped), "plan")}')
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
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would fire.")
@changing()
def backfill(
    name: str, *, first: datetime, last: datetime, scope: str | None, dry_run: bool, change: Change
) -> int:
    """Fire the plans of a past range that have not fired, all or none.

    Times are in UTC unless they have an offset. Without --yes it only shows what it would do.
    """
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        if dry_run or not change.is_confirmed:
            planned = app.schedules.preview_sync(name, first, last, scope=scope)
            return _tell_planned(name, planned, is_asked=dry_run, as_json=change.as_json)
        with progress(f"backfill {name}", unit="plans") as bar:
            fired = app.schedules.backfill_sync(
                name,
                first,
                last,
                scope=scope,
                reason=change.reason,
                by=change.by,
                on_progress=lambda done, of: bar.at(done, total=of),
            )
    _tell_fired(fired, as_json=change.as_json)
    return Exit.OK


def _tell_planned(name: str, planned: Sequence[BackfillPlan], *, is_asked: bool, as_json: bool) -> int:
    if as_json:
        click.echo(formats.as_json(list(planned)))
    else:
        rows = [(formats.moment(plan.time), plan.scope, _FATES[plan.fate]) for plan in planned]
        _print_some(("PLAN (UTC)", "SCOPE", "WOULD"), rows)
    count = sum(plan.fate == "fire" for plan in planned)
    sentence = f'"{name}" would fire {how_many(count, "plan")} of {len(planned):,} in this range'
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
        click.echo(f"fired {how_many(len(fired), 'job')}")


@click.command()
@name_argument
@changing()
def delete(name: str, *, change: Change) -> int:
    """Delete a schedule; its plans and jobs stay. A declared one returns when a worker starts."""
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        known = app.schedules.get_sync(name)
        if not change.is_confirmed:
            return refuse(f'"{name}" ({known.described}) would be deleted: give --yes to do it')
        app.schedules.delete_sync(name, reason=change.reason, by=change.by)
    click.echo(formats.as_json({"deleted": name}) if change.as_json else f'"{name}" is deleted')
    return Exit.OK


def _print_some(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first rows, as many as a reader takes in; the sentence after them has the total."""
    if rows:
        print_table(heads, rows[:_MOST_LINES], flexible=("SCOPE",))
    if len(rows) > _MOST_LINES:
        click.echo(f"… and {len(rows) - _MOST_LINES:,} more")


VERBS = (run, pause, resume, skip, backfill, delete)
