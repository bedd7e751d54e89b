"""What the commands about schedules share: their options, and the App that they ask."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import click

from holdfast.app import App
from holdfast.cli.options import MISSING, dsn_option, schema_option
from holdfast.domain.duration import duration
from holdfast.domain.time_zones import zone_named
from holdfast.errors import InvalidConnectionString, InvalidInput
from holdfast.postgres.schema import Schema

Command = TypeVar("Command", bound=Callable[..., Any])

name_argument = click.argument("name")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
scope_option = click.option("--scope", metavar="SCOPE", help="Only this scope.")
yes_option = click.option("--yes", is_flag=True, help="Do it without asking, even for many.")
reason_option = click.option("--reason", metavar="TEXT", help="The reason, for the history.")


def read_zone(ctx: click.Context, param: click.Parameter, value: str | None) -> ZoneInfo | None:
    try:
        return None if value is None else zone_named(value)
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, param) from None


def read_time(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """A date or a time of ISO 8601; in UTC, unless it says otherwise."""
    if value is None:
        return None
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a time: write 2026-03-29, 2026-03-29T09:00 or 2026-03-29T09:00+02:00",
            ctx,
            param,
        ) from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def read_until(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | str | None:
    """A time, or a length from now."""
    if value is None:
        return None
    try:
        duration(value)
    except InvalidInput:
        return read_time(ctx, param, value)
    return value


tz_option = click.option(
    "--tz",
    callback=read_zone,
    metavar="ZONE",
    help="Show times in this zone, such as Europe/Oslo; without it, in UTC.",
)


@contextmanager
def opened(dsn: str | None, schema: Schema) -> Iterator[App]:
    """What the App refuses to take came from the options: the command was called wrongly."""
    if dsn is None:
        raise InvalidConnectionString(MISSING)
    app = App(dsn, schema=schema.name)
    try:
        yield app
    except InvalidConnectionString:
        raise
    except InvalidInput as error:
        raise click.UsageError(str(error), click.get_current_context()) from None
    finally:
        app.close_sync()


def where(command: Command) -> Command:
    return dsn_option(schema_option(command))
