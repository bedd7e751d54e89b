"""`-p name=value` and `-p count:=3`: arguments of a job on the command line."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_WRITTEN = re.compile(r"([^:=]+)(:?=)(.*)", re.DOTALL)


def read_parameters(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> Mapping[str, Any]:
    """Errors repeat names, never values: they may be secret."""
    read: dict[str, Any] = {}
    for text in given:
        written = _WRITTEN.fullmatch(text)
        if written is None:
            raise click.BadParameter(
                "write name=value for text, or name:=JSON for anything else, such as count:=3", ctx, param
            )
        name, sign, value = written.groups()
        if name in read:
            raise click.BadParameter(f'"{name}" is given twice', ctx, param)
        read[name] = value if sign == "=" else _json(ctx, param, name, value)
    return read


def _json(ctx: click.Context, param: click.Parameter, name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        place = f", at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise click.BadParameter(
            f'what follows "{name}:=" is not JSON{place}: write {name}=… for text', ctx, param
        ) from None


def parameters_option(help: str) -> Callable[[Command], Command]:  # noqa: A002  # what it is
    return click.option(
        "-p",
        "--param",
        "parameters",
        multiple=True,
        callback=read_parameters,
        metavar="NAME=TEXT|NAME:=JSON",
        help=help,
    )
