"""What a handler returned: stored if it can be, and never a reason for a done job to fail."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.shapes import Colour, Line, Tree
from codec.support import Stored, giving, is_same
from holdfast.domain.outcome import Succeeded
from holdfast.errors import Undecodable

TOO_LARGE = Succeeded(None, "result_too_large")
UNENCODABLE = Succeeded(None, "result_unencodable")


@dataclass
class Picky:
    name: str

    def __post_init__(self) -> None:
        if self.name == "no":
            raise KeyError(self.name)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (str, "sent"),
        (Any, {"sent": [1, None]}),
        (Line, Line("nut", Decimal("1.10"))),
        (list[Colour | None], [Colour.RED, None]),
        (dict[UUID, Tree], {UUID(int=1): Tree("a", [Tree("b")])}),
        (int, 2**70),
        (float | None, 1.5),
    ],
)
def test_a_result_is_read_as_the_return_type(hint: Any, value: object, stored: Stored) -> None:
    signature = giving(hint)
    encoded = signature.encode_result(value)
    assert encoded.flag is None
    assert encoded.result is not None
    assert is_same(value, signature.decode_result(stored(encoded.result)))


@pytest.mark.requirement("S0.25")
@pytest.mark.parametrize("hint", [None, str, Any, str | None])
def test_a_missing_result_takes_no_place_and_is_read_as_none(hint: Any) -> None:
    signature = giving(hint)
    assert signature.encode_result(None) == Succeeded(None, None)
    assert signature.decode_result(None) is None


@pytest.mark.requirement("S0.25")
def test_an_empty_result_is_kept_apart_from_a_missing_one() -> None:
    signature = giving(dict[str, int] | None)
    assert signature.encode_result({}) == Succeeded("{}", None)
    assert signature.decode_result("{}") == {}


@pytest.mark.requirement("S0.26")
def test_a_result_over_the_limit_is_dropped_and_flagged() -> None:
    signature = giving(str)
    assert signature.encode_result("x" * (16 * 1024 - 2)).flag is None
    assert signature.encode_result("x" * (16 * 1024 - 1)) == TOO_LARGE
    assert signature.encode_result("ø" * (8 * 1024)) == TOO_LARGE
    assert signature.encode_result("x" * 100, limit=100) == TOO_LARGE


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.requirement("S0.27")
@pytest.mark.parametrize(
    "value",
    [
        object(),
        float("nan"),
        [1, {"a": math.inf}],
        Tree("a", [math.nan]),  # type: ignore[list-item]  # which is the point
        "a\0b",
        {"a\0b": 1},
        "\ud800",
        [10**5000],
        CYCLE,
        {(1, 2): 3},
        open,
        msgspec.Raw(b"{"),
        msgspec.Raw(b'"\\ud800"'),
        msgspec.Raw(b"1e999999"),
    ],
)
@pytest.mark.parametrize("hint", [Any, int])
def test_a_result_that_cannot_be_stored_is_dropped_and_flagged(hint: Any, value: object) -> None:
    assert giving(hint).encode_result(value) == UNENCODABLE


def test_a_backslash_before_u0000_is_no_nul() -> None:
    assert giving(str).encode_result("\\u0000").flag is None


@pytest.mark.parametrize(
    ("hint", "value", "text"),
    [
        (str, 5, "5"),
        (int, Line("nut", Decimal(1)), '{"name":"nut","price":"1","count":1}'),
        (Any, (1,), "[1]"),
    ],
)
def test_a_result_of_another_type_is_kept_for_people_to_see(hint: Any, value: object, text: str) -> None:
    assert giving(hint).encode_result(value) == Succeeded(text, None)


def test_a_class_that_refuses_to_be_read_again_does_not_hinder_its_result() -> None:
    value = Picky("yes")
    value.name = "no"
    assert giving(Picky).encode_result(value) == Succeeded('{"name":"no"}', None)


def test_a_result_of_another_type_is_blamed_on_what_was_returned_before_a_changed_definition() -> None:
    with pytest.raises(Undecodable) as raised:
        giving(int).decode_result('"five"')
    assert str(raised.value) == (
        "what job() returned does not fit its return type: expected int, got str. "
        "The handler returned another type than its annotation says, or the annotation has changed since. "
        'Stored: "five"'
    )
    assert raised.value.text == '"five"'


@given(st.recursive(st.from_type(object), st.lists))
def test_whatever_a_handler_returns_is_answered(value: object) -> None:
    encoded = giving(Any).encode_result(value)
    assert (encoded.result is None) or (encoded.flag is None)
