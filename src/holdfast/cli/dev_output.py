"""What `holdfast dev` says about the app that it runs: where its jobs are, and what it has found."""

from collections.abc import Iterable
from pathlib import Path

import click

from holdfast.app import App
from holdfast.cli.changing import place
from holdfast.cli.formats import how_many
from holdfast.postgres.schema import Schema
from holdfast.settings import VARIABLE, Embedded, Target

_WIDTH = 11
_STYLES = {"flow": " (flow)", "machine": " (machine)"}


def print_target(target: Target, schema: Schema) -> None:
    """Before it is touched. Without user and password."""
    if isinstance(target, Embedded):
        target = Embedded(str(Path(target.directory).resolve()))
        _line("jobs in", place(target, schema))
        _line("elsewhere", f"export {VARIABLE}=embedded:{target.directory}")
    else:
        _line("jobs in", place(target, schema))


def print_found(app: App) -> None:
    _line("queues", ", ".join(app.own_queues))
    kinds = app.declared_kinds.values()
    _line("kinds", ", ".join(f"{kind.name}{_STYLES.get(kind.style, '')}" for kind in kinds))
    _lines("schedules", (f"{each.name}: {each.timing.described}" for each in app.declared.values()))


def print_reloaded(app: App) -> None:
    counts = (
        how_many(len(app.declared_kinds), "kind"),
        how_many(len(app.own_queues), "queue"),
        how_many(len(app.declared), "schedule"),
    )
    click.echo(f"holdfast: reloaded, {', '.join(counts)}", err=True)


def _lines(name: str, values: Iterable[str]) -> None:
    for number, value in enumerate(values):
        _line("" if number else name, value)


def _line(name: str, value: str) -> None:
    click.echo(f"  {click.style(name.ljust(_WIDTH), bold=True)}{value}", err=True)
