"""`holdfast schedules`: what fires when, and how it ended. `schedules_commands` adds what operators do."""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import click

from holdfast.app import App
from holdfast.cli import formats
from holdfast.cli import schedules_output as shown
from holdfast.cli.listing import Listed, limit_option, listing
from holdfast.cli.options import WholeNumber
from holdfast.cli.schedules_commands import VERBS
from holdfast.cli.schedules_options import name_argument, scope_option, tz_option
from holdfast.cli.shared_options import json_option, opened, read_time, where
from holdfast.cli.table import Columns, print_facts, print_table
from holdfast.domain.time_zones import zone_named
from holdfast.domain.timing import Cron
from holdfast.errors import ScheduleNotFound
from holdfast.postgres.schema import Schema
from holdfast.schedules.records import PlanRecord, Schedule
from holdfast.storage.schedules import find

COLUMNS = Columns(
    ("NAME", "STATE", "NEXT", "LAST PLAN", "SCOPES", "WHEN"),
    flexible=("WHEN", "STATE", "NAME"),
    spare=("SCOPES", "LAST PLAN"),
)
_LATEST = 5


@click.group()
def schedules() -> None:
    """Show what fires when and what happened; run, pause, skip and backfill."""


for verb in VERBS:
    schedules.add_command(verb)


@schedules.command("list")
@listing(limit=None)
def list_(app: App) -> Listed:
    """List all schedules, declared and stored."""
    rows = app.run_sync(find(app.schema))
    known = app.schedules.list_sync() if rows else []
    return Listed(
        COLUMNS,
        [_line(each, rows[0].now) for each in known],
        items=[shown.schedule_facts(each) for each in known],
        empty='no schedules: declare one with @app.schedule("0 9 * * mon-fri") above @app.job',
    )


def _line(schedule: Schedule, now: datetime) -> tuple[str, ...]:
    scopes = f"{schedule.scopes:,}" if schedule.has_scopes else ""
    upcoming, last = shown.upcoming(schedule.next_at, now), formats.distance(schedule.last_plan_at, now)
    state = shown.state(schedule)
    if not schedule.is_kind_known:
        state += f": no live worker knows {schedule.kind}"
    return schedule.name, state, upcoming, last or "never", scopes, schedule.described


@schedules.command()
@name_argument
@where
@json_option
def show(name: str, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Show one schedule: its times, job, rules, state and latest plans."""
    with opened(dsn, schema) as app:
        schedule, now = _found(app, schema, name)
        plans = app.schedules.plans_sync(name, limit=_LATEST)
    if as_json:
        latest = [shown.plan_facts(plan) for plan in plans]
        click.echo(formats.as_json(shown.schedule_facts(schedule) | {"plans": latest}))
        return
    print_facts([schedule.name], shown.facts(schedule, now))
    if plans:
        click.echo("")
        _print_plans(plans, UTC)


@schedules.command("next")
@name_argument
@click.option("-n", "--count", type=WholeNumber(1, 1_000), default=10, show_default=True, help="How many.")
@scope_option
@tz_option
@where
@json_option
def next_(
    name: str,
    *,
    count: int,
    scope: str | None,
    tz: ZoneInfo | None,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Show the next plan times, in UTC and in the schedule's time zone."""
    with opened(dsn, schema) as app:
        schedule, now = _found(app, schema, name)
        times = app.schedules.next_times_sync(name, count=count, scope=scope)
    zone = tz or (zone_named(schedule.timing.zone) if isinstance(schedule.timing, Cron) else ZoneInfo("UTC"))
    if as_json:
        click.echo(formats.as_json(times))
        return
    if schedule.is_paused:
        _warn(f'"{name}" is paused: plans are skipped until {shown.pause_end(schedule)}')
    if not times:
        click.echo(f'"{name}" has no more plans')
        return
    local = f"TIME ({zone.key})" if zone.key != "UTC" else ""
    rows = [
        (
            formats.moment(time),
            f"{time.astimezone(zone):%a %Y-%m-%d %H:%M:%S}" if local else "",
            formats.distance(time, now),
        )
        for time in times
    ]
    print_table(("TIME (UTC)", local, ""), rows)


@schedules.command()
@name_argument
@click.option("--missed", is_flag=True, help="Only plans that did not fire: missed and skipped ones.")
@limit_option(20)
@click.option(
    "--before", callback=read_time, metavar="TIME", help="Only plans before this time, for the next page."
)
@scope_option
@tz_option
@where
@json_option
def history(
    name: str,
    *,
    missed: bool,
    limit: int,
    before: datetime | None,
    scope: str | None,
    tz: ZoneInfo | None,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Show the decision about each plan and the state of its job, latest first."""
    with opened(dsn, schema) as app:
        plans = app.schedules.plans_sync(name, scope=scope, before=before, is_unfired=missed, limit=limit)
    if as_json:
        click.echo(formats.as_json([shown.plan_facts(plan) for plan in plans]))
    elif plans:
        _print_plans(plans, tz or UTC)
    else:
        narrowed = missed or scope is not None or before is not None
        click.echo("no plan matches" if narrowed else f'"{name}" has not had a plan yet')


def _print_plans(plans: Sequence[PlanRecord], zone: tzinfo) -> None:
    rows = [
        (
            formats.moment(plan.time, zone),
            plan.scope,
            shown.decision(plan),
            formats.length(plan.lag),
            "" if plan.job is None else str(plan.job),
            shown.outcome(plan),
            "" if plan.attempts is None else str(plan.attempts),
            formats.length(plan.duration),
        )
        for plan in plans
    ]
    heads = (f"PLAN ({zone})", "SCOPE", "DECISION", "LAG", "JOB", "OUTCOME", "TRIES", "TOOK")
    print_table(heads, rows, flexible=("SCOPE", "DECISION", "OUTCOME"))


def _found(app: App, schema: Schema, name: str) -> tuple[Schedule, datetime]:
    """With the database's time, for which `in 5m` is meant."""
    rows = app.run_sync(find(schema, name))
    if not rows:
        raise ScheduleNotFound(name)
    return app.schedules.get_sync(name), rows[0].now


def _warn(sentence: str) -> None:
    click.echo(f"holdfast: warning: {sentence}", err=True)
