"""What the tests of the codec share: a context, a job that takes one value, and what "the same" means."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any

import msgspec

from holdfast.codec.signature import Signature

Stored = Callable[[str], str]


class Context:
    """Stands in for the worker's."""


@cache
def taking(hint: Any) -> Signature:
    """The signature of a job that takes one value of this type."""

    def job(*, value: object) -> None: ...

    job.__annotations__ = {"value": hint, "return": None}
    return Signature.of(job, context=Context)


@cache
def giving(hint: Any) -> Signature:
    """The signature of a job that returns a value of this type, resolved as at the start of an app."""

    def job() -> None: ...

    job.__annotations__ = {"return": hint}
    signature = Signature.of(job, context=Context)
    signature.resolve()
    return signature


def arrived(hint: Any, value: object, stored: Stored) -> Any:
    """The value as its handler gets it: enqueued, kept by Postgres, read back."""
    signature = taking(hint)
    return signature.decode(stored(signature.encode((), {"value": value})))["value"]


def is_same(given: Any, taken: Any) -> bool:  # noqa: PLR0911  # a return for each form
    """Equal in value and in type, all the way down. Zones of datetimes are kept as their offset."""
    if type(given) is not type(taken):
        return False
    if isinstance(given, datetime):
        clock = given.replace(tzinfo=None, fold=0) == taken.replace(tzinfo=None, fold=0)
        return bool(clock and given.utcoffset() == taken.utcoffset())
    if isinstance(given, list | tuple):
        return len(given) == len(taken) and all(map(is_same, given, taken))
    if isinstance(given, dict):
        return given.keys() == taken.keys() and all(is_same(given[key], taken[key]) for key in given)
    if isinstance(given, msgspec.Struct):
        return is_same(msgspec.structs.asdict(given), msgspec.structs.asdict(taken))
    if is_dataclass(given):
        return all(is_same(getattr(given, f.name), getattr(taken, f.name)) for f in fields(given))
    return bool(given == taken)
