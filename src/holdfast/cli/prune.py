"""`holdfast prune`: deletes ended jobs whose retention is over, without waiting for the leader."""

from collections.abc import Sequence
from datetime import timedelta
from typing import get_args

import click

from holdfast.app import App
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import how_many
from holdfast.cli.options import length
from holdfast.cli.progress import progress
from holdfast.cli.shared_options import opened
from holdfast.domain.states import FinalState
from holdfast.insights.pruning import Chosen, Prunable

_KEPT = "nothing may go: no ended job that this asks for is past its retention"


@click.command()
@click.option(
    "--older-than",
    callback=lambda ctx, param, value: None if value is None else length(ctx, param, value),
    metavar="DURATION",
    help="Only jobs that ended longer ago than this, such as 7d.",
)
@click.option(
    "--state",
    "states",
    type=click.Choice(get_args(FinalState)),
    multiple=True,
    help="Only jobs that ended like this; may be given several times.",
)
@click.option("--dry-run", is_flag=True, help="Count what may go, and delete nothing.")
@changing()
def prune(
    *, older_than: timedelta | None, states: Sequence[FinalState], dry_run: bool, change: Change
) -> int:
    """Delete ended jobs whose retention is over, now and not in the leader's time.

    It works in small transactions beside running workers: stop it at any time, and what was deleted stays
    deleted. Jobs that are to be kept for longer stay; `holdfast jobs delete` deletes those too.
    """
    change.say_where()
    asked = Chosen(older_than, tuple(states) or None)
    with opened(change.dsn, change.schema) as app:
        found = app.prunable_sync(older_than=asked.older_than, states=asked.states)
        if dry_run or not found.total:
            _tell(
                change, {"deleted": 0, "counts": found.counts, "is_capped": found.is_capped}, _counted(found)
            )
            return Exit.OK
        refused = change.refused(f"delete {_so_many(found)} with all that is known of them")
        if refused is not None:
            return refused
        deleted = _deleted(app, found, asked, change)
    _tell(change, {"deleted": deleted}, f"deleted {how_many(deleted, 'job')}")
    return Exit.OK


def _deleted(app: App, found: Prunable, asked: Chosen, change: Change) -> int:
    so_far = 0
    total = None if found.is_capped else found.total
    with progress("prune", total=total, unit="jobs") as shown:

        def tell(number: int) -> None:
            nonlocal so_far
            so_far = number
            shown.at(number)

        try:
            return app.prune_sync(
                older_than=asked.older_than,
                states=asked.states,
                by=change.by,
                reason=change.reason,
                on_progress=tell,
            )
        except KeyboardInterrupt:
            click.echo(f"holdfast: stopped after {so_far:,} jobs, which stay deleted", err=True)
            raise


def _so_many(found: Prunable) -> str:
    return f"{found.total:,}{'+' if found.is_capped else ''} ended {'job' if found.total == 1 else 'jobs'}"


def _by_state(found: Prunable) -> str:
    counted = ", ".join(f"{count:,} {state}" for state, count in found.counts.items())
    return f" (of the first {found.total:,}: {counted})" if found.is_capped else f" ({counted})"


def _counted(found: Prunable) -> str:
    return f"{_so_many(found)} may go{_by_state(found)}" if found.total else _KEPT


def _tell(change: Change, facts: object, sentence: str) -> None:
    click.echo(told_as_json(facts) if change.as_json else sentence)
