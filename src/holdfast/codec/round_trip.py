"""Whether a value survives being stored: what was given, compared with what was read back from its JSON.

The decoder returns values of the annotated types. Comparing with them needs no second look at the
annotations, and finds what decoding alone would let pass: bytes that arrive as text, a key 1 that arrives as
"1", a subclass whose fields are dropped, NaN that arrives as None.
"""

import dataclasses
import math
import reprlib
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from holdfast.codec.json_hooks import is_model

# The usual types, checked first: when the types agree, equality says the rest.
PLAIN = frozenset({str, int, bool, float, type(None), bytes, UUID, date, timedelta})
# What else may be given where nothing is lost. For all other types: themselves and their subclasses.
_ACCEPTED: dict[type, tuple[type, ...]] = {
    float: (float, int),
    set: (set, frozenset),
    frozenset: (frozenset, set),
}
_MISSING = object()


def is_plainly_same(given: Any, taken: Any) -> bool:
    """A cheap check that most values pass. False says nothing: then the values are compared closely."""
    kind = type(taken)
    return kind is type(given) and kind in PLAIN and bool(given == taken)


class Difference(NamedTuple):
    """Where a value would change on its way, as `.items[2].price`, and how."""

    path: str
    problem: str

    def under(self, step: str) -> "Difference":
        return Difference(step + self.path, self.problem)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`takes_naive` lets datetimes without a time zone pass."""

    takes_naive: bool = False

    def difference(self, given: Any, taken: Any) -> Difference | None:
        """The first place where more than the form has changed: a list for a tuple loses nothing."""
        kind: type = type(taken)
        if kind is type(given) and kind in PLAIN:
            return None if given == taken else _mismatch(given, taken)
        if kind is datetime:
            return self._of_moments(given, taken)
        match taken:
            case list() | tuple() if _is_array(given, kind) and len(given) == len(taken):
                return self._of_items(given, taken)
            case dict() if isinstance(given, dict) and len(given) == len(taken):
                return self._of_entries(given, taken)
        names = field_names(kind)
        if names is not None and type(given) is kind:
            return self._of_fields(given, taken, names)
        return None if _is_same(given, taken) else _mismatch(given, taken)

    def _of_moments(self, given: Any, taken: datetime) -> Difference | None:
        if not isinstance(given, datetime):
            return _mismatch(given, taken)
        if given.tzinfo is None and not self.takes_naive:
            return Difference(
                "",
                f"{given} has no time zone: pass an aware datetime, or annotate the parameter "
                "Annotated[datetime, msgspec.Meta(tz=False)] to take naive ones",
            )
        return None if _is_same_moment(given, taken) else _mismatch(given, taken)

    def _of_items(self, given: Any, taken: Any) -> Difference | None:
        for index, (item, read) in enumerate(zip(given, taken, strict=True)):
            if type(item) is type(read) and type(item) in PLAIN and item == read:
                continue  # what most items are, without the cost of a call
            if found := self.difference(item, read):
                return found.under(f"[{index}]")
        return None

    def _of_entries(self, given: Any, taken: Any) -> Difference | None:
        for key, read in taken.items():
            value = given.get(key, _MISSING)
            if value is _MISSING:
                return Difference("", f"a key of {shown(given)} would arrive as {reprlib.repr(key)}")
            if found := self.difference(value, read):
                return found.under(f"[{reprlib.repr(key)}]")
        return None

    def _of_fields(self, given: Any, taken: Any, names: tuple[str, ...]) -> Difference | None:
        for name in names:
            before, after = getattr(given, name, _MISSING), getattr(taken, name, _MISSING)
            if before is not after and (found := self.difference(before, after)):
                return found.under(f".{name}")
        if getattr(given, "__pydantic_extra__", None) != getattr(taken, "__pydantic_extra__", None):
            return _mismatch(given, taken)
        return None


def _is_array(given: Any, kind: type) -> bool:
    """A named tuple is given only for itself: a plain one may have its items in another order."""
    return type(given) is kind if hasattr(kind, "_fields") else isinstance(given, list | tuple)


def _is_same_moment(given: datetime, taken: datetime) -> bool:
    """By clock and offset: an hour that the clock repeats never equals that moment in another zone."""
    if given.tzinfo is taken.tzinfo:
        return given == taken
    clocks = (given.replace(tzinfo=None, fold=0), taken.replace(tzinfo=None, fold=0))
    return given.utcoffset() == taken.utcoffset() and clocks[0] == clocks[1]


def _is_same(given: Any, taken: Any) -> bool:
    kind = type(taken)
    # True is an int, and a member of an IntEnum too, but neither may stand in for the other.
    if type(given) is not kind and isinstance(taken, Enum | bool):
        return False
    if not isinstance(given, _ACCEPTED.get(kind, (kind,))):
        return False
    match taken:
        case time():
            return bool(given == taken and (given.tzinfo is None) == (taken.tzinfo is None))
        case Decimal():
            return bool(given.is_finite() and given == taken)
        case _:
            return bool(given == taken)


@lru_cache(maxsize=1024)
def field_names(kind: Hashable) -> tuple[str, ...] | None:
    """The fields of a dataclass, a model, an attrs class or a Struct; None for anything else."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if is_model(kind):
        return tuple(getattr(kind, "model_fields", ()))
    if (attributes := getattr(kind, "__attrs_attrs__", None)) is not None:
        return tuple(attribute.name for attribute in attributes)
    return getattr(kind, "__struct_fields__", None)


def _mismatch(given: Any, taken: Any) -> Difference:
    is_number = math.isfinite(given) if isinstance(given, float) else True
    if not (given.is_finite() if isinstance(given, Decimal) else is_number):
        return Difference("", f"{given} is not a number and cannot be stored")
    expected = type(taken).__name__
    return Difference("", f"expected {expected}, got {shown(given)}, which would arrive as {shown(taken)}")


def shown(value: object) -> str:
    """A value as an error shows it: its type and its beginning."""
    kind = type(value).__name__
    try:
        text = reprlib.repr(value)
    except Exception:  # noqa: BLE001  # of the user's own, or of a number with more digits than Python writes
        return kind
    return text if kind in text else f"{kind} {text}"
