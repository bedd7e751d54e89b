"""The arguments of an App, checked once: where its database is, how to reach it, and who reads its events.
The environment is read at the first use, never at import.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.domain.redaction import SECRET_NAMES
from holdfast.domain.retention import Retention
from holdfast.errors import InvalidConnectionString, InvalidInput
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.embedded.layout import DEFAULT_DIRECTORY
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.schema import Schema
from holdfast.telemetry.events import Reader
from holdfast.worker.options import WorkerOptions

VARIABLE = "HOLDFAST_DSN"
_EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that you run yourself."""

    dsn: Dsn


@dataclass(frozen=True, slots=True)
class Embedded:
    """A private server in a directory."""

    directory: str


Target = Server | Embedded


def read_target(given: object) -> Target:
    """What the App was given, else HOLDFAST_DSN. Neither is an error: a forgotten variable must never put
    payments on a container's disk.
    """
    text = given if given is not None else os.environ.get(VARIABLE)
    if text is None:
        raise InvalidConnectionString(
            f"no database was named: set {VARIABLE} (such as postgresql://user@host/database), or write "
            'App("embedded") for a private server in ./.holdfast'
        )
    if not isinstance(text, str):  # not repeated: it may hold a password
        raise InvalidConnectionString(
            f"the connection string is of type {type(text).__name__}: give text such as "
            "postgresql://user@host/database"
        )
    if text == _EMBEDDED:
        return Embedded(DEFAULT_DIRECTORY)
    if text.startswith(f"{_EMBEDDED}:"):
        return Embedded(text.removeprefix(f"{_EMBEDDED}:") or DEFAULT_DIRECTORY)
    return Server(Dsn.parse(text))


def read_schema(name: object) -> Schema:
    if not isinstance(name, str):
        raise InvalidInput(f'schema is {name!r}: give its name, such as "{Schema().name}"')
    return Schema(name)


def read_pool(options: object) -> PoolOptions:
    if options is None:
        return PoolOptions()
    if not isinstance(options, PoolOptions):
        raise InvalidInput(f"pool is {options!r}: give PoolOptions(pool_max_conns=20), or leave it out")
    return options


def read_slots(slots: object) -> dict[str, int]:
    """How many jobs of a queue run at once in a worker. Does not choose the queues that it serves."""
    if slots is None:
        return {}
    if not isinstance(slots, Mapping):
        raise InvalidInput(f'slots is {slots!r}: give how many jobs of a queue run at once, {{"pdf": 2}}')
    return dict(WorkerOptions(queues=slots).queues) if slots else {}


def read_retention(retention: Retention | None) -> Retention | None:
    """How long ended jobs are kept; None: not said here."""
    return None if retention is None else WorkerOptions(retention=retention).retention


def read_readers(readers: object) -> tuple[Reader, ...]:
    found = tuple(readers) if isinstance(readers, Iterable) else (None,)
    if not all(map(callable, found)):
        raise InvalidInput(f"readers is {readers!r}: give a list of functions that take an event")
    return found


def read_secrets(patterns: object) -> tuple[str, ...]:
    """What is secret by its name."""
    if patterns is None:
        return SECRET_NAMES
    found = tuple(patterns) if isinstance(patterns, Iterable) and not isinstance(patterns, str) else (None,)
    for pattern in found:
        if not isinstance(pattern, str) or not pattern.strip() or "/" in pattern or "\0" in pattern:
            raise InvalidInput(
                f"secrets is {patterns!r}: give patterns of names, such as "
                '["*password*", "pin"], or [] for none'
            )
    return found


def read_switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is {value!r}: give True or False")
    return value
