"""What a limit allows, what of it is refused when it is declared, and whose settings count."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Breaker, Limit, Rate
from holdfast.domain.limits import LimitSpec, effective, from_json, to_json
from holdfast.errors import InvalidInput

NUMBERS = st.integers(1, 1_000)
RATES = st.builds(
    Rate,
    st.integers(10, 1_000),
    per=st.sampled_from(["1s", "90ms", timedelta(hours=1)]),
    burst=st.integers(1, 10),
    strict=st.booleans(),
)
SPECS = st.builds(
    LimitSpec,
    per_key=st.none() | NUMBERS,
    total=st.none() | NUMBERS,
    rate=st.none() | RATES,
    rate_per_key=st.none() | RATES,
    turns=st.booleans(),
    breaker=st.none() | st.builds(Breaker, failures=NUMBERS, per_key=st.booleans()),
    hold=st.sampled_from(["run", "job"]),
)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "this limit limits nothing: give total="),
        ({"hold": "job"}, "limits nothing"),
        ({"total": 0}, r"total is 0, so that no job would ever run: .*app\.limits\.close"),
        ({"per_key": 0, "key": "account"}, "per_key is 0"),
        ({"total": -1}, "total is -1: give a whole number"),
        ({"total": 2.5}, "total is 2.5: give a whole number"),
        ({"total": True}, "total is True"),
        ({"per_key": "5", "key": "account"}, "per_key is '5'"),
        ({"total": 3, "per_key": 5, "key": "account"}, "per_key is 5, more than the total of 3"),
        ({"rate": 90}, r"rate is 90: give Rate\(90, per=\"10s\"\)"),
        ({"rate_per_key": "90/s", "key": "account"}, "rate_per_key is '90/s'"),
        ({"breaker": 5}, r"breaker is 5: give Breaker\("),
        ({"total": 1, "turns": 1}, "turns is 1: give True or False"),
        ({"total": 1, "hold": "flow"}, "hold is 'flow': give \"run\""),
        ({"rate": Rate(1, per="1s"), "hold": "job"}, "this limit has none: give per_key= or total="),
        ({"total": 3, "key": "account"}, "counts nothing for each key, and is given the key account"),
        ({"per_key": 3, "key": ["a", "a"]}, "name each parameter once"),
        ({"per_key": 3, "key": 5}, "key is 5: give the name of a parameter"),
        ({"per_key": 3, "key": [""]}, "give the name of a parameter"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        Limit(**settings)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"count": 0, "per": "1s"}, "the count of a Rate is 0"),
        ({"count": 1.5, "per": "1s"}, "is 1.5: give a whole number"),
        ({"count": 9, "per": "0s"}, "per is 0:00:00: give a length of time above 0"),
        ({"count": 9, "per": 10}, "per is 10: write a length of time with its unit"),
        ({"count": 9, "per": "1s", "burst": 0}, "burst is 0"),
        ({"count": 9, "per": "1s", "strict": "yes"}, "strict is 'yes': give True or False"),
        ({"count": 9, "per": "1s", "strict": True, "burst": 10}, "burst is 10, more than the 9"),
        ({"count": 1_001, "per": "1s", "strict": True}, "a count of 1,000 at most, not 1,001"),
    ],
)
def test_a_rate_that_means_nothing_is_refused(given: dict[str, Any], problem: str) -> None:
    count = given.pop("count")
    with pytest.raises(InvalidInput, match=problem):
        Rate(count, **given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"failures": 0}, "failures is 0"),
        ({"pause": "0s"}, "pause is 0:00:00"),
        ({"pause": 30}, "pause is 30"),
        ({"on": int}, "on is .*: give an exception class"),
        ({"per_key": "acme"}, "per_key is 'acme': give True or False"),
    ],
)
def test_a_breaker_that_means_nothing_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        Breaker(**given)


def test_a_breaker_counts_the_chosen_errors() -> None:
    assert Breaker().counts(ValueError())
    assert not Breaker().counts(KeyboardInterrupt())
    assert Breaker(on=ConnectionError).counts(ConnectionResetError())
    assert not Breaker(on=ConnectionError).counts(ValueError())
    assert Breaker(on=lambda error: "429" in str(error)).counts(ValueError("429"))


@pytest.mark.parametrize(
    ("spec", "is_keyed", "may_be_direct"),
    [
        (LimitSpec(total=3), False, True),
        (LimitSpec(per_key=1), True, True),
        (LimitSpec(per_key=1, hold="job"), True, True),
        (LimitSpec(per_key=1, total=3), True, False),
        (LimitSpec(total=3, turns=True), True, False),
        (LimitSpec(turns=True), True, False),
        (LimitSpec(rate=Rate(1, per="1s")), False, False),
        (LimitSpec(total=1, rate=Rate(1, per="1s")), False, False),
        (LimitSpec(rate_per_key=Rate(1, per="1s")), True, False),
        (LimitSpec(per_key=1, breaker=Breaker()), True, False),
        (LimitSpec(breaker=Breaker()), False, False),
        (LimitSpec(breaker=Breaker(per_key=True)), True, False),
    ],
)
def test_permits_are_handed_on_only_where_nothing_spans_keys(
    spec: LimitSpec, is_keyed: bool, may_be_direct: bool
) -> None:
    assert (spec.is_keyed, spec.may_be_direct) == (is_keyed, may_be_direct)


@given(SPECS)
def test_what_is_stored_is_what_was_declared(spec: LimitSpec) -> None:
    assert to_json(from_json(to_json(spec))) == to_json(spec)
    assert effective(from_json(to_json(spec)), None) == from_json(to_json(spec))


@given(SPECS, SPECS)
def test_what_an_operator_has_set_wins_and_the_rest_is_the_codes(
    code: LimitSpec, operator: LimitSpec
) -> None:
    overrides = {"total": operator.total, "rate": to_json(operator).get("rate")}
    counts = to_json(effective(from_json(to_json(code)), overrides))
    assert counts.get("total") == operator.total
    assert counts.get("rate") == to_json(operator).get("rate")
    for name in ("per_key", "rate_per_key", "turns", "breaker", "hold"):
        assert counts.get(name) == to_json(code).get(name)


def test_what_a_newer_release_has_stored_is_passed_over() -> None:
    assert from_json('{"total": 3, "shape": "round"}') == LimitSpec(total=3)


def test_a_limit_is_the_same_under_every_key() -> None:
    limit = Limit(per_key=1).called("stripe")
    assert limit.by("account_id").names == ("account_id",)
    assert limit.by("account_id", "region").spec == limit.spec
    assert limit.names == ()
    with pytest.raises(InvalidInput, match=r'limit "stripe": name the parameters'):
        limit.by()
    with pytest.raises(InvalidInput, match=r'limit "cpu" counts nothing for each key'):
        Limit(total=1).called("cpu").by("account_id")
