"""Lengths of time in buckets that grow by a fifth, so that a percentile is told to within a tenth.

Bucket b holds the lengths from 1.2 ^ (b - 1/2) to 1.2 ^ (b + 1/2) seconds, and stands for 1.2 ^ b: no length
in it is further away than 9.6 %. `storage/sql_parts/bucket.sql` computes the same.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from itertools import accumulate
from math import ceil, log

RATIO = 1.2
SHORTEST = 0.0001
"""In seconds. What is shorter counts as this."""


def bucket_of(length: timedelta) -> int:
    return round(log(max(length.total_seconds(), SHORTEST)) / log(RATIO))


@lru_cache(maxsize=1_000)
def length_of(bucket: int) -> timedelta:
    """What a bucket stands for; never nothing."""
    return max(timedelta(seconds=RATIO**bucket), timedelta(microseconds=1))


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many lengths are in each bucket."""

    counts: Mapping[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def percentiles(self, *percents: float) -> list[timedelta | None]:
        """For each of them the length that `percent` of all are not longer than; None if there are none."""
        buckets = sorted(self.counts)
        so_far = list(accumulate(self.counts[bucket] for bucket in buckets))
        total = so_far[-1] if so_far else 0
        places = (bisect_left(so_far, max(ceil(total * percent / 100), 1)) for percent in percents)
        return [length_of(buckets[place]) if place < len(buckets) else None for place in places]
