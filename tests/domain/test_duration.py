"""Lengths of time as users write them, and the backoff between reconnects."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.backoff import Exponential
from holdfast.domain.duration import compact, duration
from holdfast.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5m", timedelta(minutes=5)),
        ("1h 30m", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("250ms", timedelta(milliseconds=250)),
        ("1.5 s", timedelta(seconds=1.5)),
        ("3 days", timedelta(days=3)),
        ("2 Weeks", timedelta(weeks=2)),
        ("1 minute 10 seconds", timedelta(seconds=70)),
    ],
)
def test_a_length_reads_as_people_write_it(text: str, expected: timedelta) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize(
    "bad", [5, 5.0, True, None, "", "5", "m", "5 parsecs", "-5m", "5m!", "5m 3", "٣m", "1e9d"]
)
def test_anything_without_a_clear_unit_is_an_error_that_names_the_option(bad: object) -> None:
    with pytest.raises(InvalidInput, match="timeout"):
        duration(bad, name="timeout")


def test_a_length_beyond_what_can_be_counted_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="longer than the longest time"):
        duration("9999999999d")


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=10_000)))
def test_what_is_written_compactly_reads_back(length: timedelta) -> None:
    length -= length % timedelta(milliseconds=1)
    assert duration(compact(length)) == length


@given(st.integers(-3, 5000), st.floats(0, 1, exclude_max=True))
def test_a_backoff_stays_within_its_bounds(failures: int, luck: float) -> None:
    policy = Exponential(timedelta(seconds=1), cap=timedelta(minutes=1), jitter=0.25)
    assert timedelta(seconds=0.75) <= policy.delay(failures, luck) <= timedelta(minutes=1)


def test_a_backoff_doubles_until_its_cap() -> None:
    policy = Exponential(timedelta(seconds=1), cap=timedelta(seconds=10), jitter=0)
    assert [policy.delay(n, 0.5).total_seconds() for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]
