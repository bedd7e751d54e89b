"""How long a retry waits: bounded for every backoff policy."""

import json
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain.policies import YEAR, backoffs, lucks
from holdfast.domain.backoff import (
    DEFAULT,
    Backoff,
    Listed,
    from_json,
    to_json,
)
from holdfast.domain.retry import exponential, polynomial

SECOND = timedelta(seconds=1)
HOURLY = exponential("1m", cap="1h", jitter=0)


@pytest.mark.requirement("S4.19")
def test_an_exponential_backoff_doubles_from_its_base_to_its_cap() -> None:
    waits = [HOURLY.delay(failure, 0.7) / SECOND for failure in range(-1, 10)]
    assert waits == [60, 60, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


@pytest.mark.requirement("S4.19")
@given(st.integers(), lucks)
def test_an_exponential_backoff_stays_between_base_and_cap(failures: int, luck: float) -> None:
    assert 60 <= HOURLY.delay(failures, luck) / SECOND <= 3600


@pytest.mark.requirement("S2.29")
@given(st.integers(1, 70), lucks)
def test_a_polynomial_backoff_grows_by_the_fourth_power_and_spreads(n: int, luck: float) -> None:
    assert n**4 + 16 <= polynomial().delay(n, luck) / SECOND <= n**4 + 16 + 30 * n


@given(st.integers(1, 16), lucks)
def test_the_default_doubles_within_a_quarter(n: int, luck: float) -> None:
    assert 0.75 * 2**n <= DEFAULT.delay(n, luck) / SECOND <= 1.25 * 2**n


@given(backoffs, st.integers(-10, 10**9), lucks)
def test_a_wait_is_never_negative_and_never_longer_than_a_year(
    backoff: Backoff, failures: int, luck: float
) -> None:
    assert timedelta() <= backoff.delay(failures, luck) <= YEAR


@given(backoffs, st.integers(1, 10**6))
def test_without_luck_waits_never_shrink(backoff: Backoff, failures: int) -> None:
    if isinstance(backoff, Listed):
        backoff = Listed(tuple(sorted(backoff.lengths)))
    assert backoff.delay(failures, 0.5) <= backoff.delay(failures + 1, 0.5)


@given(backoffs)
def test_a_policy_is_read_as_it_was_stored(backoff: Backoff) -> None:
    assert from_json(to_json(backoff)) == backoff


_numbers = st.one_of(
    st.floats(),
    st.integers(),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.just("nan"),
    st.just("inf"),
)
_garbage = st.dictionaries(
    st.sampled_from(["exponential", "fixed", "list", "polynomial", "other"]),
    st.one_of(_numbers, st.lists(_numbers, max_size=5)),
    max_size=2,
)


@given(_garbage.map(json.dumps) | st.text(), st.integers(-10, 10**9), lucks)
@example('{"polynomial": ["nan", 0, 0]}', 2, 0.0)
@example("[" * 100_000, 1, 0.0)
def test_a_policy_that_was_written_by_hand_never_stops_a_rescue(
    text: str, failures: int, luck: float
) -> None:
    assert timedelta() <= from_json(text).delay(failures, luck) <= YEAR


@given(st.text(st.characters(exclude_characters="{")))
def test_what_is_no_policy_is_the_default(text: str) -> None:
    assert from_json(text) == DEFAULT
