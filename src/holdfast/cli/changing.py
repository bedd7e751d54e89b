"""What commands that change something share: who does it and why, which database, and a question first."""

import getpass
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click
from psycopg.pq import Conninfo

from holdfast.cli.exit_codes import refuse
from holdfast.cli.options import MISSING
from holdfast.cli.shared_options import json_option, where
from holdfast.domain.job import check_text
from holdfast.errors import InvalidConnectionString, QueueNotFound
from holdfast.postgres.schema import Schema
from holdfast.settings import Embedded, Target, read_target

Acting = Callable[..., int | None]

MANY = 10
"""More than these are changed only if the operator has confirmed it."""
_PORT = "5432"


@dataclass(frozen=True, slots=True)
class Change:
    """What every such command was given."""

    by: str
    reason: str | None
    is_confirmed: bool
    dsn: str | None
    schema: Schema
    as_json: bool

    def say_where(self) -> None:
        """Before anything is changed: an operator has several databases, and several terminals."""
        click.echo(f"holdfast: {place_of(self.dsn, self.schema)}", err=True)

    def refused(self, what: str, *, word: str | None = None) -> int | None:
        """The exit code if this needs a confirmation and has none; None to go on. `word`: what the operator
        has to type where a y is too easily given.
        """
        if self.is_confirmed:
            return None
        if not sys.stdin.isatty():
            return refuse(f"this would {what}: give --yes to do it")
        if word is None:
            is_meant = click.confirm(f"{what}?", err=True)
        else:
            asked = f'{what}? Type "{word}" to do it'
            is_meant = click.prompt(asked, default="", show_default=False, err=True).strip() == word
        return None if is_meant else refuse("nothing was changed")


def changing(*, asks: bool = True) -> Callable[[Acting], Acting]:
    """Adds --reason, --by, --dsn, --schema and --json, and gives them to the command as `change`; --yes, if
    the command may ask.
    """

    def decorated(command: Acting) -> Acting:
        @click.option("--reason", metavar="TEXT", help="Why, for the audit.")
        @click.option(
            "--by",
            callback=_by,
            metavar="NAME",
            help="Who does it, for the audit; without it, your user name and host.",
        )
        @where
        @json_option
        @wraps(command)
        def with_change(
            *args: Any,
            reason: str | None,
            by: str,
            dsn: str | None,
            schema: Schema,
            as_json: bool,
            yes: bool = False,
            **more: Any,
        ) -> int | None:
            return command(*args, change=Change(by, reason, yes, dsn, schema, as_json), **more)

        return (
            click.option("--yes", is_flag=True, help="Do it without asking.")(with_change)
            if asks
            else with_change
        )

    return decorated


@contextmanager
def in_words_of_options() -> Iterator[None]:
    """An unknown queue, with the option that accepts it in place of Python's parameter."""
    try:
        yield
    except QueueNotFound as error:
        advice = "give --create if workers will serve it later"
        raise QueueNotFound(error.queue, near=error.near, advice=advice) from None


def operator() -> str:
    """`ann@web-1`: who sits at this terminal, as far as the system knows."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def place_of(dsn: str | None, schema: Schema) -> str:
    """Host and database without user and password; what the string leaves open, as libpq fills it in."""
    if dsn is None:
        raise InvalidConnectionString(MISSING)
    return place(read_target(dsn), schema)


def place(target: Target, schema: Schema) -> str:
    if isinstance(target, Embedded):
        server = f"the private Postgres in {Path(target.directory).resolve()}"
    else:
        server = _server(target.dsn.params)
    return server if schema == Schema() else f"{server}, schema {schema.name}"


def _server(given: Mapping[str, str]) -> str:
    unsaid = {option.keyword.decode(): (option.val or b"").decode() for option in Conninfo.get_defaults()}
    params = {**unsaid, **given}
    hosts = (params.get("host") or params.get("hostaddr") or "localhost").split(",")
    ports = (params.get("port") or "").split(",")
    if len(ports) < len(hosts):
        ports = ports * len(hosts)
    places = ",".join(f"{host}:{port or _PORT}" for host, port in zip(hosts, ports, strict=False))
    return f"database {params.get('dbname') or params.get('user') or ''} on {places}"


def _by(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    if value is None:
        return operator()
    check_text("by", value)
    if not value.strip():
        raise click.BadParameter("it is empty: say who does it", ctx, param)
    return value
