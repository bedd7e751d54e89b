"""Where Holdfast finds its database, decided once and never at import."""

import os
from dataclasses import dataclass

from holdfast.errors import InvalidConnectionString
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.embedded.layout import DEFAULT_DIRECTORY

VARIABLE = "HOLDFAST_DSN"
_EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Server:
    """A database that somebody runs."""

    dsn: Dsn


@dataclass(frozen=True, slots=True)
class Embedded:
    """A private server in a directory."""

    directory: str


Target = Server | Embedded


def read_target(given: str | None) -> Target:
    """What was given, else the environment's. Nothing at all is an error: a forgotten variable must never put
    payments on a container's disk.
    """
    text = given if given is not None else os.environ.get(VARIABLE)
    if text is None:
        raise InvalidConnectionString(
            f"no database was named: set {VARIABLE} (such as postgresql://user@host/database), or write "
            'App("embedded") for a private server in ./.holdfast'
        )
    if text == _EMBEDDED:
        return Embedded(DEFAULT_DIRECTORY)
    if text.startswith(f"{_EMBEDDED}:"):
        return Embedded(text.removeprefix(f"{_EMBEDDED}:") or DEFAULT_DIRECTORY)
    return Server(Dsn.parse(text))
