"""A type that cannot be stored is an error when the app starts, not when the first job fails."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import InitVar, dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import IO, Any, Literal, Never, NoReturn, Protocol, TypeVar
from uuid import UUID

import msgspec
import psycopg
import pytest

from codec.shapes import Address, Colour, Line, Point, Tree
from codec.support import Context, giving, taking
from holdfast.errors import InvalidInput, UnstorableType


class Plain:
    def __init__(self, name: str) -> None:
        self.name = name


class Name(str):
    __slots__ = ()


class Mixed(Enum):
    ONE = 1
    TWO = "two"


class Pair(Enum):
    ORIGIN = (0, 0)


class Closable(Protocol):
    def close(self) -> None: ...


@dataclass
class Deep:
    tree: Tree
    clients: list[Plain]


@dataclass
class Initialised:
    name: str
    length: InitVar[int]


@dataclass
class Lost:
    other: "Missing"  # type: ignore[name-defined]  # noqa: F821  # which is the point


class One(msgspec.Struct):
    name: str


class Two(msgspec.Struct):
    name: str


DATA = "take what it can be made from, as JSON types, a dataclass or a msgspec Struct"
APART = "Take one type, or msgspec Structs with tag=True, which can be told apart"


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (Callable[[], int], "Callable cannot be stored: take the name of what is to be called"),
        (IO[str], f"IO cannot be stored: {DATA}"),
        (psycopg.Connection, f"Connection cannot be stored: {DATA}"),
        (asyncio.Queue[int], f"Queue cannot be stored: {DATA}"),
        (Plain, f"Plain cannot be stored: {DATA}"),
        (Closable, f"Closable cannot be stored: {DATA}"),
        (Deep, f"Plain cannot be stored: {DATA}"),
        (dict[str, list[Plain | None]], f"Plain cannot be stored: {DATA}"),
        (type[int], "type cannot be stored"),
        (complex, "complex cannot be stored"),
        (Path, "Path cannot be stored"),
        (object, "object cannot be stored: take Any for any JSON value"),
        (Name, "Name cannot be stored: take str, or a NewType of it to keep the name"),
        (Iterable[int], "Iterable cannot be stored: take a list"),
        (Iterator[int], "Iterator cannot be stored: take a list"),
        (Generator[int, None, None], "Generator cannot be stored: take a list"),
        (deque[int], "deque cannot be stored: take a list"),
        (AsyncIterator[int], "AsyncIterator cannot be stored"),
        (msgspec.Raw, "Raw and Ext cannot be stored"),
        (dict[tuple[int, int], str], "a dict with keys of this type cannot be stored"),
        (dict[Point, str], "take keys of str, int, UUID, Enum or date, or a list of pairs"),
        (dict[bool, str], "a dict with keys of this type cannot be stored"),
        (Mixed, "Enums must contain either all str or all int values"),
        (Pair, "Enums must contain either all str or all int values"),
        (Literal[Colour.RED], "Literal may only contain"),
        (Initialised, "`InitVar` fields are not supported"),
        (Lost, "name 'Missing' is not defined. Define it where the class that names it can see it"),
        (str | datetime, APART),
        (str | UUID, APART),
        (list[int] | set[int], APART),
        (Line | Tree, APART),
        (Line | Address, APART),
        (One | Two, APART),
        (Plain | int, APART),
        (Never, "Never"),
    ],
)
def test_the_error_names_the_parameter_and_what_to_take_instead(hint: Any, message: str) -> None:
    with pytest.raises(UnstorableType) as refused:
        taking(hint).resolve()
    assert str(refused.value).startswith("job(value): ")
    assert message in str(refused.value)
    assert (refused.value.function, refused.value.parameter) == ("job", "value")


def test_a_result_must_be_storable_too() -> None:
    with pytest.raises(UnstorableType, match=r"^what job\(\) returns: Plain cannot be stored") as refused:
        giving(Plain)
    assert isinstance(refused.value, InvalidInput)


@pytest.mark.parametrize("hint", [None, Never, NoReturn, TypeVar("T")])
def test_nothing_is_asked_of_a_job_that_returns_nothing(hint: Any) -> None:
    assert giving(hint).encode_result(None).result is None


@pytest.mark.parametrize("hint", [Context | None, list[Context], dict[str, Context]])
def test_the_context_is_not_stored(hint: Any) -> None:
    with pytest.raises(
        InvalidInput, match=r"job\(value\): the context cannot be stored: take it as the first"
    ):
        taking(hint).resolve()
