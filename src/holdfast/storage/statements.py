"""The `.sql` files beside this module, each read once and known by its name."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeVar

from holdfast.postgres.statement import StatementFile

T = TypeVar("T")

FOLDER = files("holdfast.storage") / "sql"
KNOWN: dict[str, StatementFile[Any]] = {}


def part(name: str) -> str:
    """A part of a statement, to be filled into another's text."""
    return (files("holdfast.storage") / "sql_parts" / f"{name}.sql").read_text("utf-8")


def statement(name: str, decode: Callable[..., T], *, is_repeatable: bool = False) -> StatementFile[T]:
    """Read a statement. `is_repeatable`: sent again after a lost reply, it has the effect of once."""
    read = StatementFile.read(FOLDER, name, decode, is_repeatable=is_repeatable)
    KNOWN[name] = read
    return read


def bunched(name: str, decode: Callable[..., list[T]], *, is_repeatable: bool = False) -> StatementFile[T]:
    """The same for one whose rows hold several results each: what comes in thousands comes in arrays."""
    read = StatementFile.read_bunched(FOLDER, name, decode, is_repeatable=is_repeatable)
    KNOWN[name] = read
    return read
