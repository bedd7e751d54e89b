"""Options that several commands share: which database, and which schema in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.domain.duration import duration
from holdfast.errors import InvalidConnectionString, InvalidInput, InvalidSchemaName
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.schema import Schema

Command = TypeVar("Command", bound=Callable[..., Any])

_EMBEDDED = "embedded"
MISSING = (
    "no database was named: give --dsn or set HOLDFAST_DSN, to a connection string such as "
    "postgresql://user@host/database, or to `embedded` for a private Postgres in ./.holdfast"
)


class WholeNumber(click.IntRange):
    """As click calls what is none: not "a valid integer range"."""

    name = "integer"


def length(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    """For options that take a length of time, which must be more than zero."""
    try:
        read = duration(value, name="the value")
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, param) from None
    if read < timedelta(milliseconds=1):
        raise click.BadParameter(f"{value!r} is too short", ctx, param)
    return read


def _schema(ctx: click.Context, param: click.Parameter, value: str) -> Schema:
    try:
        return Schema(value)
    except InvalidSchemaName as error:
        raise click.BadParameter(str(error), ctx, param) from None


def dsn_option(command: Command) -> Command:
    return click.option(
        "--dsn",
        envvar="HOLDFAST_DSN",
        metavar="DSN",
        help="Which database: a connection string, `embedded`, or `embedded:PATH`.  [env: HOLDFAST_DSN]",
    )(command)


def schema_option(command: Command) -> Command:
    return click.option(
        "--schema",
        callback=_schema,
        default=Schema().name,
        metavar="NAME",
        show_default=True,
        help="The Postgres schema that holds Holdfast's tables.",
    )(command)


@contextmanager
def database(dsn: str | None) -> Iterator[Dsn]:
    """The database that an option or the environment names; a private server runs as long as the block."""
    if dsn is None:
        raise InvalidConnectionString(MISSING)
    kind, _, path = dsn.partition(":")
    if kind != _EMBEDDED:
        yield Dsn.parse(dsn)
        return
    from holdfast.postgres.embedded import EmbeddedServer

    with EmbeddedServer.start(Path(path)) if path else EmbeddedServer.start() as server:
        yield Dsn.parse(server.dsn)
