"""When free slots wait for others before a claim: only while jobs are left and the CPU is what they lack."""

from collections.abc import Callable

import pytest

from holdfast.worker.claim_gathering import LONGEST_SECONDS, Busyness, ClaimGathering


class Time:
    """A clock, the CPU time that was used, and what was asked to be called later."""

    def __init__(self) -> None:
        self.now = 100.0
        self.used = 5.0
        self.timers: list[tuple[float, Callable[[str], None], str]] = []

    def later(self, seconds: float, call: Callable[[str], None], queue: str) -> None:
        self.timers.append((self.now + seconds, call, queue))

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for _, call, queue in due:
            call(queue)

    def use(self, seconds: float, *, cpu: float) -> None:
        self.now += seconds
        self.used += seconds * cpu


class Gathering:
    def __init__(self, *, is_busy: bool = True) -> None:
        self.time = Time()
        self.claims = 0
        self.it = ClaimGathering(lambda: is_busy, self.time.later, self._claim, lambda: self.time.now)

    def _claim(self) -> None:
        self.claims += 1


def test_before_the_first_claim_no_slot_waits() -> None:
    assert Gathering().it.may_claim("mail", is_half_free=False)


def test_while_a_busy_worker_finds_more_than_it_has_slots_a_claim_is_for_half_of_them() -> None:
    gathering = Gathering()
    gathering.it.answered("mail", is_full=True)
    assert not gathering.it.may_claim("mail", is_half_free=False)
    assert gathering.it.may_claim("mail", is_half_free=True)
    assert gathering.it.may_claim("other", is_half_free=False), "each queue for itself"


@pytest.mark.parametrize(("is_full", "is_busy"), [(False, True), (True, False), (False, False)])
def test_a_worker_that_found_all_there_was_or_that_has_time_claims_at_once(
    is_full: bool, is_busy: bool
) -> None:
    gathering = Gathering(is_busy=is_busy)
    gathering.it.answered("mail", is_full=True)
    gathering.it.answered("mail", is_full=is_full)
    assert gathering.it.may_claim("mail", is_half_free=False)
    assert not gathering.time.timers


def test_no_slot_waits_for_long_if_the_others_take_their_time() -> None:
    gathering = Gathering()
    gathering.it.answered("mail", is_full=True)
    assert not gathering.it.may_claim("mail", is_half_free=False)
    gathering.time.pass_by(LONGEST_SECONDS / 2)
    assert not gathering.it.may_claim("mail", is_half_free=False)
    assert gathering.claims == 0
    gathering.time.pass_by(LONGEST_SECONDS / 2)
    assert gathering.claims == 1
    assert gathering.it.may_claim("mail", is_half_free=False)


def test_the_time_that_a_slot_waited_for_one_claim_is_not_counted_for_the_next() -> None:
    gathering = Gathering()
    gathering.it.answered("mail", is_full=True)
    assert not gathering.it.may_claim("mail", is_half_free=False)
    gathering.time.pass_by(LONGEST_SECONDS * 0.75)
    gathering.it.answered("mail", is_full=True)  # a claim for half of them
    assert not gathering.it.may_claim("mail", is_half_free=False)
    gathering.time.pass_by(LONGEST_SECONDS * 0.75)
    assert gathering.claims == 0
    gathering.time.pass_by(LONGEST_SECONDS * 0.26)
    assert gathering.claims == 1
    assert not gathering.time.timers, "one timer, and none is left"


def test_a_worker_is_busy_if_it_has_used_most_of_a_core_lately() -> None:
    time = Time()
    busyness = Busyness(lambda: time.now, lambda: (time.used, 0.0))
    for cpu in (0.2, 0.9, 0.2):
        for _ in range(20):
            time.use(0.02, cpu=cpu)
            busyness.look()
        assert busyness.look() is (cpu > 0.5)


def test_one_burst_of_work_does_not_make_a_worker_busy() -> None:
    time = Time()
    busyness = Busyness(lambda: time.now, lambda: (time.used, 0.0))
    time.use(10, cpu=0.01)
    assert not busyness.look()
    time.use(0.02, cpu=1.0)
    assert not busyness.look()
