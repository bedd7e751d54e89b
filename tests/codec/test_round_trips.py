"""What is given arrives, in value and in type: through our JSON, and through Postgres."""

import math
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codec.shapes import (
    HINTS,
    Box,
    Colour,
    Created,
    Language,
    Line,
    Local,
    Moved,
    Order,
    Percent,
    Point,
    Right,
    Shift,
    Size,
    Tree,
)
from codec.support import Context, Stored, arrived, is_same
from holdfast.codec.hints import Function, name_of
from holdfast.codec.signature import Signature
from holdfast.errors import InvalidArguments

# For what Hypothesis cannot find by itself, or not in time.
OWN_VALUES: dict[Any, st.SearchStrategy[Any]] = {
    None: st.none(),
    Local: st.datetimes(),
    Percent: st.integers(0, 100),
    list[Percent]: st.lists(st.integers(0, 100)),
    Tree: st.recursive(
        st.builds(Tree, st.text()), lambda trees: st.builds(Tree, st.text(), st.lists(trees)), max_leaves=8
    ),
    Box[int]: st.builds(Box, st.integers()),
    Box[list[Line]]: st.builds(Box, st.lists(st.from_type(Line))),
}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TWICE = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Oslo"))


class Text(str):
    __slots__ = ()


class AnyDatetime(datetime):
    pass


class DriversUUID(UUID):
    pass


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, 2**63),
        (int, -(10**40)),
        (int, 10**4000),
        (float, 1e23),
        (float, 5e-324),
        (float, 1.7976931348623157e308),
        (int | float, 2),
        (int | float, 2.0),
        (str, "blåbær \N{SNOWMAN} \\u0000 \u2028"),
        (bytes, bytes(range(256))),
        (Decimal, Decimal("0.10")),
        (Decimal, Decimal("12345678901234567890.123456789012345678901234567890")),
        (datetime, NOON),
        (datetime, datetime(2026, 3, 1, 12, 0, 0, 1, timezone(timedelta(hours=-9, minutes=-30)))),
        (datetime, TWICE),
        (Local, datetime(2026, 3, 1, 12)),  # noqa: DTZ001  # which is the point
        (time, time(9, 30)),
        (time, time(9, 30, tzinfo=UTC)),
        (timedelta, timedelta.max),
        (timedelta, timedelta(days=-1, microseconds=1)),
        (Colour | None, Colour.RED),
        (Right, Right.READ | Right.WRITE),
        (dict[Size, str], {Size.LARGE: "L"}),
        (dict[Decimal, int], {Decimal("1.10"): 1}),
        (tuple[Point, ...], (Point(1), Point(2, 3))),
        (Order, Order(UUID(int=7), (Line("nut", Decimal("1.10")),), NOON, notes={"a": "b"})),
        (Tree, Tree("a", [Tree("b", [Tree("c")]), Tree("d")])),
        (Box[Line], Box(Line("nut", Decimal(1)))),
        (Created | Moved, Moved("Bergen", timedelta(minutes=5))),
        (Shift, Shift(time(8))),
        (Any, {"a": [1, 2.5, None, True, {"b": "c"}]}),
        (dict, {"a": 1}),
        (list, [1, "a"]),
    ],
)
def test_a_value_arrives_as_it_was_given(hint: Any, value: object, stored: Stored) -> None:
    assert is_same(value, arrived(hint, value, stored))


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (float, 4, 4.0),
        (list[int], (1, 2), [1, 2]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Sequence[int], (1, 2), [1, 2]),
        (Mapping[str, int], OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (dict[str, int], defaultdict(int, a=1), {"a": 1}),
        (set[int], frozenset({1}), {1}),
        (int, Size.LARGE, 2),
        (str, Language.NB, "nb"),
        (str, Text("a"), "a"),
        (datetime, AnyDatetime(2026, 3, 1, 12, tzinfo=UTC), NOON),
        (UUID, DriversUUID(int=5), UUID(int=5)),
        (Any, {"a": (1, 2)}, {"a": [1, 2]}),
        (tuple[int, int], Point(1, 2), (1, 2)),
    ],
)
def test_what_loses_nothing_may_stand_in_and_arrives_as_annotated(
    hint: Any, value: object, expected: object, stored: Stored
) -> None:
    assert is_same(expected, arrived(hint, value, stored))


def test_what_postgres_does_to_numbers_is_seen_only_by_those_who_do_not_say_float(stored: Stored) -> None:
    assert is_same(arrived(int | float, 1e16, stored), 10**16)
    assert is_same(arrived(Any, 1e16, stored), 10**16)
    assert is_same(arrived(float, 1e16, stored), 1e16)
    assert math.copysign(1, arrived(float, -0.0, stored)) == 1


def test_postgres_sorts_the_keys_of_a_dict(stored: Stored) -> None:
    assert list(arrived(dict[str, int], {"bb": 1, "a": 2}, stored)) == ["a", "bb"]


def fails_to_arrive(value: object) -> bool:
    """Whether there is a reason to refuse it: what JSON or Postgres cannot hold, or a time without a zone."""
    match value:
        case str():
            return "\0" in value
        case float():
            return not math.isfinite(value)
        case Decimal():
            return not value.is_finite()
        case datetime():
            offset = value.utcoffset()
            return offset is None or bool(offset % timedelta(minutes=1))
        case time():  # in a zone, which has no offset without a date
            return value.tzinfo is not None and value.utcoffset() is None
        case _:
            return False


@pytest.mark.requirement("S4.1")
@pytest.mark.parametrize("hint", HINTS, ids=str)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_has_the_type_arrives_unchanged_or_is_refused_for_a_reason(
    hint: Any, stored: Stored, data: st.DataObject
) -> None:
    value = data.draw(OWN_VALUES[hint] if hint in OWN_VALUES else st.from_type(hint))
    try:
        taken = arrived(hint, value, stored)
    except InvalidArguments:
        assert holds(value, fails_to_arrive)
    else:
        assert is_same(value, taken)


def holds(value: Any, is_wanted: Any) -> bool:
    """Whether the value holds a wanted part at any depth."""
    if isinstance(value, dict):
        return any(holds(part, is_wanted) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return any(holds(part, is_wanted) for part in value)
    if isinstance(value, msgspec.Struct) or hasattr(value, "__dataclass_fields__"):
        names = getattr(value, "__struct_fields__", None) or list(value.__dataclass_fields__)
        return any(holds(getattr(value, name), is_wanted) for name in names)
    return bool(is_wanted(value))


def plain(number: int, share: float, name: str, is_paid: bool, raw: bytes) -> None: ...


def looked_at(
    number: Annotated[int, "closely"],
    share: float,
    name: str,
    is_paid: bool,
    raw: bytes,
) -> None: ...


VALUES = st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.binary(), st.none())


@settings(max_examples=300, deadline=None)
@given(
    given=st.one_of(
        st.tuples(st.integers(), st.floats(), st.text(), st.booleans(), st.binary()),
        st.lists(VALUES, max_size=6).map(tuple),
    ),
    by_name=st.integers(0, 5),
)
def test_plain_arguments_are_taken_and_refused_as_if_they_were_looked_at_closely(
    given: tuple[object, ...], by_name: int
) -> None:
    names = ("number", "share", "name", "is_paid", "raw")
    assert_same(plain, looked_at, given[:by_name], dict(zip(names[by_name:], given[by_name:], strict=False)))


def exact(number: int, name: str, is_paid: bool) -> None: ...


def looked_at_too(number: Annotated[int, "closely"], name: str, is_paid: bool) -> None: ...


@settings(max_examples=300, deadline=None)
@given(
    given=st.one_of(
        st.tuples(st.integers(-(2**66), 2**66), st.text(st.characters(exclude_categories=())), st.booleans()),
        st.tuples(VALUES, VALUES, VALUES),
    )
)
def test_exact_arguments_are_taken_and_refused_as_if_they_were_looked_at_closely(
    given: tuple[object, ...],
) -> None:
    assert_same(exact, looked_at_too, given, {})


def assert_same(short: Function, long: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """The one signature has the short way, the other has not."""
    answers = []
    for function in (short, long):
        try:
            answers.append(Signature.of(function, context=Context).encode(args, kwargs))
        except InvalidArguments as refused:
            answers.append(str(refused).replace(name_of(function), "it").split("; it takes")[0])
    assert answers[0] == answers[1]
