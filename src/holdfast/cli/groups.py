"""`holdfast groups`: how far groups of jobs have come, what they wait for, and cancelling them."""

import time
from collections.abc import Sequence
from contextlib import suppress

import click

from holdfast.app import App
from holdfast.cli import groups_output as shown
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import how_many
from holdfast.cli.listing import OUTAGES, Listed, listing
from holdfast.cli.options import WholeNumber
from holdfast.cli.progress import progress
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_facts, print_table
from holdfast.domain.group import GROUP_STATES, GroupState
from holdfast.domain.outcome import ON_REQUEST
from holdfast.errors import DatabaseError
from holdfast.insights.group_records import GroupDetail
from holdfast.postgres.schema import Schema

_LOOK_SECONDS = 0.5

group_argument = click.argument("group", type=WholeNumber(1), metavar="ID")


@click.group()
def groups() -> None:
    """Show how far groups of jobs have come and what they wait for; cancel them."""


@groups.command("list")
@click.option("--state", type=click.Choice(GROUP_STATES), help="Only groups in this state.")
@click.option("--name", metavar="NAME", help="Only groups of this name.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Only with this tag; may be repeated.")
@click.option(
    "--before", type=WholeNumber(1), metavar="ID", help="Only groups before this id, for the next page."
)
@listing()
def list_(
    app: App,
    *,
    state: GroupState | None,
    name: str | None,
    tags: Sequence[str],
    limit: int,
    before: int | None,
) -> Listed:
    """List groups, newest first."""
    found = app.groups.list_sync(state=state, name=name, tags=tags or None, before=before, limit=limit)
    is_narrowed = bool(state or name or tags or before)
    return Listed(
        shown.COLUMNS,
        [shown.line(each) for each in found],
        items=found,
        empty="no group matches" if is_narrowed else "there are no groups: app.group(calls, …) makes one",
    )


@groups.command()
@group_argument
@click.option("--follow", is_flag=True, help="Show how it comes on, until it has ended or you press Ctrl-C.")
@where
@json_option
def show(group: int, *, follow: bool, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Show one group: its members by how they ended, what it waits for, and what follows."""
    with opened(dsn, schema) as app:
        found = _followed(app, group) if follow else app.groups.show_sync(group)
    if as_json:
        click.echo(told_as_json(found))
        return
    print_facts(shown.title(found.status), shown.facts(found))
    if found.awaited:
        click.echo("")
        print_table(shown.AWAITED_HEADS, shown.awaited_rows(found), flexible=("KIND",))


def _followed(app: App, group: int) -> GroupDetail:
    """A bar until it has ended, or until Ctrl-C. It outlives a restart of the database."""
    found = app.groups.show_sync(group)
    with (
        suppress(KeyboardInterrupt),
        progress(f"group {group}", total=found.status.counts.members, unit="members") as bar,
    ):
        while not found.status.is_final:
            bar.at(found.status.counts.ended, what=f"group {group} {found.status.state}")
            time.sleep(_LOOK_SECONDS)
            try:
                found = app.groups.show_sync(group)
            except OUTAGES as error:
                click.echo(f"holdfast: {' '.join(str(error).split())}; trying again", err=True)
    return found


@groups.command()
@group_argument
@changing()
def cancel(group: int, *, change: Change) -> int:
    """Cancel all members of a group that have not ended; nothing follows them. If you interrupt it, the
    leader goes on.
    """
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        found = app.groups.show_sync(group).status
        if found.is_final:
            _tell(change, {"group": group, "answer": "final"}, f"group {group} has already ended")
            return Exit.OK
        left = found.counts.left
        refused = change.refused(f"cancel {how_many(left, 'member')} of group {group}")
        if refused is not None:
            return refused
        try:
            with progress("cancel", total=found.counts.members, unit="members") as bar:
                found = app.groups.cancel_sync(
                    group, reason=change.reason or ON_REQUEST, by=change.by, on_progress=bar.at
                )
        except (KeyboardInterrupt, DatabaseError):
            click.echo(f"holdfast: the leader goes on: see holdfast groups show {group}", err=True)
            raise
    sentence = f"group {group} is cancelled: members that ran were asked to stop, and nothing follows"
    _tell(change, {"group": group, "answer": found.state}, sentence)
    return Exit.OK


def _tell(change: Change, facts: dict[str, object], sentence: str) -> None:
    click.echo(told_as_json(facts) if change.as_json else sentence)
