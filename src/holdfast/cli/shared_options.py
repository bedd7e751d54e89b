"""What commands about many things share: their options, and the App that they ask."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from holdfast.app import App
from holdfast.cli.options import MISSING, dsn_option, schema_option
from holdfast.domain.duration import duration
from holdfast.errors import InvalidConnectionString, InvalidFilter, InvalidInput
from holdfast.postgres.schema import Schema

Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


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
        pass
    else:
        return value
    try:
        return read_time(ctx, param, value)
    except click.BadParameter as error:
        raise click.BadParameter(f"{error.message}, or a length from now such as 2h", ctx, param) from None


@contextmanager
def opened(dsn: str | None, schema: Schema) -> Iterator[App]:
    """What the App refuses to take came from the options: the command was called wrongly."""
    if dsn is None:
        raise InvalidConnectionString(MISSING)
    app = App(dsn, schema=schema.name)
    try:
        yield app
    except (InvalidConnectionString, InvalidFilter):
        raise
    except InvalidInput as error:
        raise click.UsageError(str(error), click.get_current_context()) from None
    finally:
        app.close_sync()


def where(command: Command) -> Command:
    return dsn_option(schema_option(command))
