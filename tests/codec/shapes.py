"""Types as users write them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar
from uuid import UUID

import msgspec

UserId = NewType("UserId", int)
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
Local = Annotated[datetime, msgspec.Meta(tz=False)]
T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Language(StrEnum):
    NB = "nb"
    EN = "en"


class Right(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Line:
    name: str
    price: Decimal
    count: int = 1


@dataclass(frozen=True)
class Order:
    id: UUID
    lines: tuple[Line, ...]
    at: datetime
    colour: Colour | None = None
    notes: dict[str, str] = field(default_factory=dict)


@dataclass
class Gift(Line):
    card: str = ""


@dataclass(eq=False)
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


@dataclass
class Box(Generic[T]):
    content: T


class Point(NamedTuple):
    x: int
    y: int = 0


class Address(TypedDict):
    street: str
    zip: NotRequired[str]


class Created(msgspec.Struct, tag=True):
    at: date


class Moved(msgspec.Struct, tag="moved", rename="camel"):
    new_place: str
    by: timedelta


class Shift(msgspec.Struct, frozen=True, array_like=True):
    start: time
    end: time | None = None


HINTS: list[Any] = [
    int, float, str, bool, bytes, bytearray, None, UUID, Decimal, datetime, date, time, timedelta,
    int | None, str | int | None, bool | Decimal, Literal["a", "b", 3],
    list[int] | dict[str, int],
    Colour, Size, Language, Right,
    list[str], tuple[int, str], tuple[int, ...], set[int], frozenset[str], list[list[float]],
    dict[str, int], dict[int, str], dict[UUID, bool], dict[Colour, list[int]], dict[date, Decimal],
    UserId, Percent, Local, list[Percent],
    Line, Order, Tree, Box[int], Box[list[Line]], Point, Address, Shift, Created | Moved, Order | None,
    list[Created | Moved | None],
]  # fmt: skip
