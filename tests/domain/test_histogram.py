"""Lengths in buckets: a percentile is within a tenth of the exact one."""

from collections import Counter
from datetime import timedelta
from math import ceil

from hypothesis import given
from hypothesis import strategies as some

from holdfast.domain.histogram import Histogram, bucket_of

LENGTHS = some.floats(0.0001, 3_000_000_000).map(lambda seconds: timedelta(seconds=seconds))


@given(some.lists(LENGTHS, min_size=1), some.sampled_from([50, 95, 99, 100]))
def test_a_percentile_is_within_a_tenth_of_the_exact_one(lengths: list[timedelta], percent: int) -> None:
    exact = sorted(lengths)[ceil(len(lengths) * percent / 100) - 1]
    [found] = Histogram(Counter(map(bucket_of, lengths))).percentiles(percent)
    assert found is not None
    assert abs(found - exact) <= 0.1 * exact + timedelta(microseconds=1)


def test_what_is_shorter_than_the_shortest_counts_as_that() -> None:
    assert bucket_of(timedelta()) == bucket_of(timedelta(microseconds=100))


def test_there_is_no_percentile_of_nothing() -> None:
    assert Histogram().percentiles(50, 99) == [None, None]
    assert Histogram().total == 0
