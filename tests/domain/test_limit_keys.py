"""Which key a job has in a limit, by its arguments."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Use
from holdfast.domain.limit_keys import KindLimit, from_json, jsonb_text, to_json, uses_of
from holdfast.domain.limit_use import LimitUse
from holdfast.errors import InvalidInput

STRIPE = KindLimit("stripe", ("account",))
BOTH = KindLimit("stripe", ("account", "region"))


def key(limit: KindLimit, args: dict[str, Any] | str) -> str:
    [use] = uses_of([limit], args if isinstance(args, str) else json.dumps(args), "charge")
    return use.key


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"account": "acme"}, "acme"),
        ({"account": 42}, "42"),
        ({"account": True}, "true"),
        ({"account": "true"}, "true"),
        ({"account": ["a", 1]}, '["a", 1]'),
        ({"account": {"long": 1, "id": None}}, '{"id": null, "long": 1}'),
        ('{"account": 1.50}', "1.50"),
        ('{"account": 1e3}', "1000"),
        ('{"account": -0.0}', "0.0"),
        ('{"account": 12345678901234567890123}', "12345678901234567890123"),
    ],
)
def test_one_parameter_gives_its_value(args: dict[str, Any] | str, expected: str) -> None:
    assert key(STRIPE, args) == expected


def test_several_parameters_give_a_list_of_their_values() -> None:
    assert key(BOTH, {"region": "eu", "account": "a"}) == '["a", "eu"]'
    assert key(BOTH, {"region": 'eu"', "account": 5}) == '[5, "eu\\""]'


def test_a_limit_without_keys_has_an_empty_one() -> None:
    assert uses_of([KindLimit("cpu")], "{}", "charge") == (LimitUse("cpu"),)


def test_limits_are_passed_in_the_order_of_their_names() -> None:
    uses = uses_of([STRIPE, KindLimit("cpu")], '{"account": "acme"}', "charge")
    assert uses == (LimitUse("cpu"), LimitUse("stripe", "acme"))


@pytest.mark.parametrize(
    ("args", "found"),
    [({}, "nothing was given"), ({"account": None}, "nothing was given"), ({"account": ""}, "it is empty")],
)
def test_a_missing_value_is_an_error_that_says_what_to_do(args: dict[str, Any], found: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        key(STRIPE, args)
    assert str(caught.value) == (
        f'charge counts against limit "stripe" by its account, and {found}'
        f"{' for it' if 'given' in found else ''}: give a value, or the key itself with "
        'using(limit={"stripe": Use(key=…)})'
    )


def test_a_default_stands_in_for_what_was_not_given() -> None:
    limit = KindLimit("stripe", ("account",), {"account": "main"})
    assert key(limit, {}) == "main"
    assert key(limit, {"account": "acme"}) == "acme"
    with pytest.raises(InvalidInput, match="nothing was given"):
        key(limit, {"account": None})


def test_the_fields_of_a_machines_step_are_within_its_arguments() -> None:
    limit = KindLimit("stripe", ("account",), within="fields")
    assert key(limit, {"step": "Start", "fields": {"account": "acme"}}) == "acme"
    for args in ({"step": "Start"}, {"step": "Start", "fields": 5}, {"account": "acme"}):
        with pytest.raises(InvalidInput, match="nothing was given"):
            key(limit, args)


@pytest.mark.parametrize("value", ["a\nb", "\u202e", "x" * 1_001, "é" * 501])
def test_a_key_that_cannot_be_shown_or_indexed_is_hashed(value: str) -> None:
    hashed = key(STRIPE, {"account": value})
    assert hashed.startswith("sha256:")
    assert len(hashed) == len("sha256:") + 64
    assert key(STRIPE, {"account": "x" * 1_000}) == "x" * 1_000


def test_a_secret_key_is_hashed_alike_in_every_kind() -> None:
    first = KindLimit("stripe", ("token",), is_secret=True)
    second = KindLimit("stripe", ("api_key",), is_secret=True)
    assert key(first, {"token": "s3cret"}) == key(second, {"api_key": "s3cret"})
    assert "s3cret" not in key(first, {"token": "s3cret"})


@pytest.mark.parametrize(
    ("use", "problem"),
    [
        ({"key": ""}, "the key of a limit is ''"),
        ({"key": 5}, "the key of a limit is 5: give text"),
        ({"cost": 0}, "cost is 0: give a whole number from 1"),
        ({"cost": 1.5}, "cost is 1.5"),
        ({"cost": True}, "cost is True"),
    ],
)
def test_a_use_that_means_nothing_is_refused(use: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        Use(**use)


def test_what_a_kind_declares_is_read_as_it_was_stored() -> None:
    limits = (
        KindLimit("cpu"),
        KindLimit("stripe", ("account", "region"), {"region": "eu"}, "fields"),
        KindLimit("vault", ("token",), is_secret=True),
    )
    assert from_json(to_json(limits)) == limits
    assert to_json(tuple(reversed(limits))) == to_json(limits)
    assert (to_json([]), from_json(None)) == (None, ())


def test_a_secret_default_is_not_stored() -> None:
    written = to_json([KindLimit("vault", ("token",), {"token": "s3cret"}, is_secret=True)])
    assert written is not None
    assert "s3cret" not in written


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(VALUES)
def test_a_key_tells_values_apart(value: Any) -> None:
    assert json.loads(jsonb_text(value), parse_float=Decimal) == value
