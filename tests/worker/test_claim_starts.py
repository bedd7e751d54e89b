"""Where the next claim begins: a pure decision, so the clock is a number."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from holdfast.storage.runs import ClaimRow
from holdfast.worker.claim_starts import ClaimStart, ClaimStarts
from holdfast.worker.kinds_to_claim import ClaimRequest

AT = datetime(2026, 1, 1, tzinfo=UTC)
MILLISECOND = 0.001


def asking(limit: int, *, is_whole: bool = True) -> ClaimRequest:
    return ClaimRequest(("mail",), limit, is_whole=is_whole, places=0)


def row(job: int, priority: int = 5) -> ClaimRow:
    return ClaimRow(1, None, job, job, 1, "mail", "{}", priority, 20, None, AT, 3600.0, AT, None, None, None)


class Claiming:
    """Full claims of one queue, one after the other, each of a millisecond."""

    def __init__(self, limit: int, *, is_whole: bool = True) -> None:
        self.asking = asking(limit, is_whole=is_whole)
        self.starts = ClaimStarts()
        self.now = 100.0
        self.last = 0

    def take(self) -> ClaimStart:
        return self.starts.take("default", self.asking, self.now)

    def once(self, *, is_woken: bool = False) -> ClaimStart:
        start, asked_at = self.take(), self.now
        self.now += MILLISECOND
        self.last += self.asking.limit
        self.starts.came_back_full(
            "default", self.asking, start, row(self.last), is_woken=is_woken, asked_at=asked_at, now=self.now
        )
        return start


@pytest.mark.parametrize(("limit", "front"), [(1, 2), (50, 2), (99, 2), (100, 1), (250, 1)])
def test_with_a_backlog_claims_go_on_behind_each_other(limit: int, front: int) -> None:
    claiming = Claiming(limit)
    found = [claiming.once() for _ in range(5)]
    assert [start.after for start in found[:front]] == [None] * front
    assert [start.after for start in found[front:]] == [(5, limit * n) for n in range(front, 5)]
    assert [start.is_quick for start in found] == [False] * front + [True] * (5 - front)


@pytest.mark.parametrize("limit", [10, 250])
def test_no_row_is_left_out_for_longer_than_the_bounds(limit: int) -> None:
    """Rows behind which a claim goes on for 20 ms, rows that were locked for 100 ms."""
    claiming = Claiming(limit)
    fronts, thorough = [claiming.now], [claiming.now]
    for _ in range(1_000):
        at = claiming.now
        start = claiming.once()
        if start.after is None:
            fronts.append(at)
        if not start.is_quick:
            assert start.after is None, "what tries the locks looks at all rows"
            thorough.append(at)
    assert max(b - a for a, b in pairwise(fronts)) <= 0.021
    assert max(b - a for a, b in pairwise(thorough)) <= 0.102
    assert len(thorough) < 20, "and locks are tried seldom"


def test_a_wake_up_leads_to_the_front() -> None:
    claiming = Claiming(250)
    claiming.once()
    claiming.starts.wake("default")
    assert claiming.once().after is None
    assert claiming.once(is_woken=True).after is not None
    assert claiming.once().after is None, "woken while the claim before was under way"
    assert claiming.once().after is not None


def test_a_claim_that_is_not_full_leaves_nothing_to_go_on_from() -> None:
    claiming = Claiming(250)
    claiming.once()
    assert claiming.take().after is not None
    assert claiming.take() == ClaimStart()


def test_a_wake_up_is_not_about_the_kinds_that_a_claim_could_take_anyway() -> None:
    """How far claims came without some kinds is kept apart, and says nothing of these kinds."""
    claiming = Claiming(10, is_whole=False)
    claiming.once()
    claiming.starts.wake("default")
    assert claiming.once().after == (5, 10)
    assert claiming.starts.take("default", asking(10), claiming.now) == ClaimStart()
