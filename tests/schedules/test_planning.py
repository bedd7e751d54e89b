"""Planning: at whatever moments the planner looks, it decides every plan once, in order, by its policies."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.plan_decisions import COUNTED, Decided, Pause, PlanDecisions, ScopeStanding, decide_plans
from holdfast.domain.schedule_rules import Rules, read_rules
from holdfast.domain.timing import At, Cron, Every, Timing
from schedules.planning_model import Fate, fates
from schedules.simulated_schedule import TICK, Life
from schedules.strategies import EPOCH, near, rules, timings

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
HOURLY = Every(HOUR)
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
# Between a look and the next: a moment, or an outage.
gaps = st.lists(
    st.one_of(st.timedeltas(TICK, MINUTE), st.timedeltas(MINUTE, 30 * HOUR)), min_size=1, max_size=12
)
lastings = st.sampled_from([timedelta(), 5 * MINUTE, 3 * HOUR])


@st.composite
def pauses(draw: st.DrawFn) -> Pause | None:
    since = draw(near)
    until = draw(st.none() | st.timedeltas(TICK, 30 * HOUR).map(lambda length: since + length))
    return draw(st.sampled_from([None, Pause(since, until)]))


@st.composite
def lives(draw: st.DrawFn) -> Life:
    life = Life(draw(timings), draw(rules), EPOCH, draw(lastings), draw(pauses()))
    plans = life.planned(EPOCH + timedelta(days=4))
    life.skips = frozenset(draw(st.lists(st.sampled_from(plans), max_size=3)) if plans else ())
    return life


def told(look: PlanDecisions, due: list[datetime]) -> list[Fate]:
    """The rows of a look, plan by plan."""
    return [
        (plan, row.decision if row.reason is None else f"{row.decision} {row.reason}")
        for row in look.decided
        for plan in due
        if (row.earliest or row.plan_time) <= plan <= row.plan_time
    ]


@pytest.mark.requirement("S3.15", "S3.16", "S3.20", "S2.41")
@settings(max_examples=400, deadline=None)
@given(lives(), gaps)
def test_every_look_decides_what_a_naive_model_decides(life: Life, waits: list[timedelta]) -> None:
    now = EPOCH
    for wait in waits:
        now += wait
        decided_until = life.last_plan_at or life.since
        due = [plan for plan in life.planned(now) if plan > decided_until]
        expected = fates(due, life.rules, life.standing(now), now)
        assert told(life.look(now), due) == expected


@settings(max_examples=400, deadline=None)
@given(lives(), gaps)
def test_no_plan_is_decided_twice_and_none_is_lost(life: Life, waits: list[timedelta]) -> None:
    now = EPOCH
    for wait in waits:
        before, now = life.last_plan_at, now + wait
        look = life.look(now)
        assert look.last_plan_at == (look.decided[-1].plan_time if look.decided else before)
        if look.next_at is None:
            assert life.planned(EPOCH + timedelta(days=30))[len(life.told(now)) :] == []
        else:
            assert look.next_at >= now
    told = life.told(now)
    assert told == life.planned(now)[: len(told)]
    assert all(earlier < later for earlier, later in pairwise(told))
    assert all(row.decision in ("fired", "caught_up") for _, row in life.fired)


@settings(deadline=None)
@given(lives())
def test_looking_when_told_decides_everything_and_each_look_has_work_or_a_reason(life: Life) -> None:
    """No look for nothing, none too late, and it comes to an end. Jobs are shorter than intervals, or plans
    would wait for ever longer.
    """
    now, end = EPOCH, EPOCH + timedelta(days=3)
    life.lasting = min(life.lasting, 2 * MINUTE)
    for _ in range(5_000):
        look = life.look(now)
        if look.next_at is None or look.next_at > end:
            break
        now = look.next_at
    else:
        pytest.fail("the looks never end")
    told, planned = life.told(now), life.planned(now)
    assert told == planned[: len(told)]
    assert told == planned or life.standing(now).active_since is not None
    if life.pause is None and not life.skips and life.rules.overlap == "allow":
        assert {row.decision for row in life.rows} <= {"fired"}


@settings(deadline=None)
@given(lives(), gaps)
def test_at_most_one_job_is_active_unless_overlap_is_allowed(life: Life, waits: list[timedelta]) -> None:
    now = EPOCH
    for wait in waits:
        now += wait
        life.look(now)
    if life.rules.overlap != "allow" and life.lasting:
        assert all(later - earlier >= life.lasting for (earlier, _), (later, _) in pairwise(life.fired))


@settings(deadline=None)
@given(lives(), gaps)
def test_delay_and_jitter_move_the_job_and_never_the_plan(life: Life, waits: list[timedelta]) -> None:
    now = EPOCH
    for wait in waits:
        now += wait
        life.look(now)
    planned = life.planned(now)
    for at, row in life.fired:
        assert row.plan_time in planned
        assert row.run_at is not None
        due = row.plan_time + life.rules.delay
        assert min(due, at) <= row.run_at <= max(due, at) + life.rules.jitter
        if at - due <= MINUTE:
            assert row.run_at >= due


def test_jitter_spreads_the_scopes_and_is_the_same_for_each_node() -> None:
    chosen = read_rules(jitter="10m")
    runs = set()
    for scope in range(200):
        standing = ScopeStanding("s", str(scope), NOON - TICK)
        (row,) = decide_plans(HOURLY, chosen, standing, NOON).decided
        assert row == decide_plans(HOURLY, chosen, standing, NOON + MINUTE).decided[0]
        assert row.run_at is not None
        runs.add((row.run_at - NOON) // MINUTE)
    assert runs == set(range(10))


@pytest.mark.requirement("S3.16")
def test_a_schedule_that_never_fired_looks_back_to_its_creation() -> None:
    """A monthly one, registered ten weeks ago and never looked at."""
    standing = ScopeStanding("s", "", NOON - timedelta(weeks=10))
    look = decide_plans(Cron("0 0 1 * *"), Rules(), standing, NOON)
    assert [(row.decision, row.count) for row in look.decided] == [("missed", 1), ("caught_up", 1)]
    assert look.last_plan_at == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.requirement("S3.15")
def test_plans_up_to_the_last_one_never_fire_again_even_when_the_clock_went_back() -> None:
    standing = ScopeStanding("s", "", NOON - timedelta(days=9), last_plan_at=NOON + 2 * HOUR)
    assert decide_plans(HOURLY, Rules(), standing, NOON) == PlanDecisions(
        (), NOON + 2 * HOUR, NOON + 3 * HOUR
    )


def test_a_changed_timing_is_not_held_to_what_it_never_promised() -> None:
    """Weekly until yesterday, hourly since an hour ago: the hours of the week before were never planned."""
    standing = ScopeStanding("s", "", since=NOON - MINUTE, last_plan_at=NOON - timedelta(days=6))
    look = decide_plans(HOURLY, read_rules(missed="every"), standing, NOON)
    assert [row.plan_time for row in look.decided] == [NOON]


def test_what_is_caught_up_without_overlap_follows_one_after_the_other() -> None:
    """After an outage the plans did not overlap when their time came, so none of them is skipped for it."""
    life = Life(HOURLY, read_rules(missed="every", overlap="skip"), NOON - 5 * HOUR, lasting=10 * MINUTE)
    now = NOON + MINUTE
    while (look := life.look(now)).next_at is not None and look.next_at < NOON + HOUR:
        now = look.next_at
    assert [row.plan_time for _, row in life.fired] == [NOON - n * HOUR for n in (4, 3, 2, 1, 0)]
    assert [row.decision for row in life.rows] == ["caught_up"] * 5


def test_a_plan_whose_time_comes_while_the_earlier_job_is_active_is_skipped() -> None:
    life = Life(HOURLY, read_rules(overlap="skip"), NOON - MINUTE, lasting=90 * MINUTE)
    for hour in range(4):
        life.look(NOON + hour * HOUR)
    assert [(row.decision, row.reason) for row in life.rows] == [
        ("fired", None),
        ("skipped", "overlap"),
        ("fired", None),
        ("skipped", "overlap"),
    ]


def test_while_paused_nothing_fires_and_what_was_paused_is_not_caught_up_later() -> None:
    life = Life(HOURLY, read_rules(missed="every"), NOON - MINUTE, pause=Pause(NOON))
    paused = life.look(NOON + 2 * HOUR)
    assert [(row.reason, row.count) for row in paused.decided] == [("paused", 3)]
    life.pause = Pause(NOON, NOON + 4 * HOUR)
    resumed = life.look(NOON + 5 * HOUR)
    assert [(row.plan_time, row.decision, row.reason) for row in resumed.decided] == [
        (NOON + 3 * HOUR, "skipped", "paused"),
        (NOON + 4 * HOUR, "caught_up", None),
        (NOON + 5 * HOUR, "fired", None),
    ]


def test_what_was_missed_before_a_pause_is_caught_up_after_it() -> None:
    """The latest that was not paused: a pause ends nothing that was promised before it."""
    life = Life(HOURLY, Rules(), NOON - MINUTE, pause=Pause(NOON + MINUTE, NOON + 150 * MINUTE))
    look = life.look(NOON + 151 * MINUTE)
    assert [(row.plan_time, row.decision, row.count) for row in look.decided] == [
        (NOON, "caught_up", 1),
        (NOON + 2 * HOUR, "skipped", 2),
    ]


def test_what_was_missed_before_a_pause_is_caught_up_when_the_plan_after_it_is_left_out_on_request() -> None:
    life = Life(HOURLY, Rules(), NOON - MINUTE, pause=Pause(NOON + MINUTE, NOON + 90 * MINUTE))
    life.skips = frozenset({NOON + 2 * HOUR})
    look = life.look(NOON + 121 * MINUTE)
    assert [(row.plan_time, row.decision, row.reason) for row in look.decided] == [
        (NOON, "caught_up", None),
        (NOON + HOUR, "skipped", "paused"),
        (NOON + 2 * HOUR, "skipped", "asked"),
    ]


def test_a_moment_that_was_past_when_the_schedule_was_made_never_comes() -> None:
    assert decide_plans(At(NOON), Rules(), ScopeStanding("s", "", NOON), NOON) == PlanDecisions(
        (), None, None
    )


def test_after_its_end_and_after_its_only_moment_there_is_nothing_to_look_at() -> None:
    ended = Rules(ends_at=NOON)
    assert decide_plans(HOURLY, ended, ScopeStanding("s", "", NOON, NOON - HOUR), NOON).next_at is None
    look = decide_plans(At(NOON), Rules(), ScopeStanding("s", "", NOON - HOUR), NOON + HOUR)
    assert [row.decision for row in look.decided] == ["caught_up"]
    assert look.next_at is None


def calls(work: Callable[[], object]) -> int:
    """How many functions are called: the same on a slow and on a fast machine."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.requirement("S3.20")
@pytest.mark.parametrize(
    "chosen", [{}, {"missed": "every"}, {"missed": "skip"}, {"missed": "every", "window": "1d"}]
)
def test_after_ten_years_a_schedule_of_every_second_takes_no_more_work_than_after_a_day(
    chosen: dict[str, str],
) -> None:
    def looking(away: timedelta, zone: str) -> int:
        timing: Timing = Cron("* * * * * *", zone)
        standing = ScopeStanding("s", "", NOON - away)
        return calls(lambda: decide_plans(timing, read_rules(**chosen), standing, NOON))  # type: ignore[arg-type]  # of a table

    day = looking(timedelta(days=2), "Europe/Oslo")
    assert looking(timedelta(days=3_653), "America/New_York") <= day + 1_000


def test_what_is_dropped_is_one_row_with_a_count() -> None:
    standing = ScopeStanding("s", "", NOON - timedelta(days=3_653))
    dropped, fired = decide_plans(Cron("* * * * * *"), Rules(), standing, NOON).decided
    assert dropped == Decided(
        NOON - timedelta(seconds=1),
        "missed",
        "coalesced",
        count=COUNTED,
        earliest=standing.since + timedelta(seconds=1),
    )
    assert fired.plan_time == NOON


@pytest.mark.parametrize(("taken", "again"), [(0, 1), (5, 1), (100, 10), (86_400, 60)])
def test_a_plan_that_waits_is_looked_at_again_soon_after_short_jobs_and_seldom_after_long_ones(
    taken: int, again: int
) -> None:
    standing = ScopeStanding("s", "", NOON - HOUR, active_since=NOON - timedelta(seconds=taken))
    look = decide_plans(HOURLY, read_rules(overlap="queue"), standing, NOON)
    assert look == PlanDecisions((), None, NOON + timedelta(seconds=again))


def test_of_plans_before_and_after_a_pause_only_the_latest_is_caught_up() -> None:
    life = Life(HOURLY, Rules(), NOON - MINUTE, pause=Pause(NOON + MINUTE, NOON + 90 * MINUTE))
    look = life.look(NOON + 3 * HOUR)
    assert [(row.plan_time, row.decision, row.reason) for row in look.decided] == [
        (NOON, "missed", "coalesced"),
        (NOON + HOUR, "skipped", "paused"),
        (NOON + 2 * HOUR, "missed", "coalesced"),
        (NOON + 3 * HOUR, "fired", None),
    ]


def test_a_pass_fires_no_more_than_it_may_also_around_a_pause() -> None:
    """Two before the pause and two after it, three in a pass: the last one follows at once."""
    chosen = read_rules(missed="every", max_per_pass=3)
    life = Life(HOURLY, chosen, NOON - MINUTE, pause=Pause(NOON + 61 * MINUTE, NOON + 150 * MINUTE))
    now = NOON + 4 * HOUR
    first = life.look(now)
    assert [(row.plan_time - NOON) // HOUR for row in first.decided if row.run_at] == [0, 1, 3]
    assert first.next_at == now
    assert [(row.plan_time - NOON) // HOUR for row in life.look(now).decided] == [4]


def test_the_window_and_the_lateness_include_their_ends() -> None:
    standing = ScopeStanding("s", "", NOON - 9 * HOUR)
    for chosen in (read_rules(missed="every", window="3h"), read_rules(missed="skip", max_lateness="3h")):
        for now, oldest in ((NOON, NOON - 3 * HOUR), (NOON + TICK, NOON - 2 * HOUR)):
            dropped, caught_up, *_ = decide_plans(HOURLY, chosen, standing, now).decided
            assert (dropped.plan_time, caught_up.plan_time) == (oldest - HOUR, oldest)


def test_a_plan_that_a_later_one_has_overtaken_counts_as_caught_up_however_short_the_time() -> None:
    standing = ScopeStanding("s", "", NOON - timedelta(seconds=21))
    look = decide_plans(Every(timedelta(seconds=10)), read_rules(missed="every"), standing, NOON)
    assert [row.decision for row in look.decided] == ["caught_up", "caught_up", "fired"]
