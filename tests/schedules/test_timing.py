"""Intervals and single moments, and how timings and rules are written, stored and refused."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.schedule_rules import (
    Rules,
    check_together,
    read_rules,
    rules_from_json,
    rules_to_json,
)
from holdfast.domain.timing import At, Cron, Every, Timing, read_timing, timing_from_json, timing_to_json
from holdfast.errors import InvalidInput
from schedules.strategies import moments, rules, timings

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)  # a Monday
TICK = timedelta(microseconds=1)
intervals = st.timedeltas(timedelta(milliseconds=100), timedelta(days=400)).map(Every)


@given(intervals, moments)
def test_plan_times_of_an_interval_are_the_same_whenever_it_is_asked(timing: Every, moment: datetime) -> None:
    following = timing.first_after(moment)
    assert following is not None
    assert moment < following <= moment + timing.interval
    assert timing.first_after(following - TICK) == following
    assert timing.latest(following, moment) == following
    assert timing.latest(following - TICK, moment) is None
    assert timing.latest(following - TICK, moment - timing.interval) == following - timing.interval


@given(intervals, moments, st.integers(0, 50))
def test_a_stretch_of_an_interval_holds_each_plan_time_once(
    timing: Every, moment: datetime, number: int
) -> None:
    until = moment + number * timing.interval
    plans = timing.between(moment, until, 1_000)
    assert len(plans) == timing.count(moment, until, 1_000) == number
    assert all(later - earlier == timing.interval for earlier, later in pairwise(plans))
    assert all(moment < plan <= until for plan in plans)
    assert timing.between(moment, until, 3) == plans[:3]


@pytest.mark.parametrize(
    ("interval", "following"),
    [
        (timedelta(minutes=15), NOON + timedelta(minutes=15)),
        (timedelta(hours=5), datetime(2026, 11, 16, 15, tzinfo=UTC)),
        (timedelta(days=1), datetime(2026, 11, 17, tzinfo=UTC)),
        (timedelta(weeks=1), datetime(2026, 11, 23, tzinfo=UTC)),  # weeks begin on Mondays
    ],
)
def test_an_interval_is_floored_to_plan_times_in_utc(interval: timedelta, following: datetime) -> None:
    assert Every(interval).first_after(NOON) == following


def test_a_single_moment_comes_once() -> None:
    timing = At(NOON.astimezone(timezone(timedelta(hours=-7))))
    assert timing.moment == NOON
    assert timing.moment.tzinfo is UTC
    assert timing.first_after(NOON - TICK) == NOON
    assert timing.first_after(NOON) is None
    assert timing.latest(NOON, NOON - TICK) == NOON
    assert timing.latest(NOON - TICK, NOON - timedelta(days=1)) is None
    assert timing.between(NOON - TICK, NOON, 5) == [NOON]
    assert timing.described == "once, at 2026-11-16 12:00:00 UTC"


@given(timings)
def test_a_stored_timing_is_read_as_it_was(timing: Timing) -> None:
    assert timing_from_json(timing_to_json(timing)) == timing


@given(rules)
def test_stored_rules_are_read_as_they_were(chosen: Rules) -> None:
    assert rules_from_json(rules_to_json(chosen)) == chosen


def test_only_what_was_chosen_is_stored() -> None:
    assert rules_to_json(Rules()) == "{}"
    assert json.loads(rules_to_json(read_rules(jitter="1m"))) == {"jitter": 60}


names = st.sampled_from(
    ["cron", "zone", "every", "at", "missed", "window", "delay", "starts_at", "overlap", "x"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.requirement("S3.19")
@given(st.text(max_size=20) | json_values.map(json.dumps))
def test_what_was_written_by_hand_is_read_or_refused(text: str) -> None:
    for read in (timing_from_json, rules_from_json):
        try:
            read(text)
        except InvalidInput:
            continue


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({}, "none of them"),
        ({"cron": "@daily", "every": "5m"}, "cron and every"),
        ({"every": "5m", "tz": "Europe/Oslo"}, "tz goes with cron"),
        ({"every": "0s"}, "above 0"),
        ({"every": timedelta(minutes=-5)}, "above 0"),
        ({"every": "1ms"}, "100ms"),
        ({"every": "40000d"}, "36525d"),
        ({"every": 300}, '"5m"'),
        ({"at": datetime(2026, 11, 16)}, "has no time zone"),  # noqa: DTZ001  # the mistake
        ({"at": "tomorrow"}, "aware datetime"),
        ({"cron": 5}, "give text"),
        ({"cron": "@daily", "tz": 2}, "IANA name"),
        ({"cron": "@daily", "tz": "Mars/Phobos"}, "not known"),
    ],
)
def test_a_timing_that_makes_no_sense_is_refused(given: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(advice)):
        read_timing(**given)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"missed": "all"}, "latest, every, skip"),
        ({"overlap": "wait"}, "allow, skip, queue"),
        ({"window": "24h"}, 'window goes with missed="every"'),
        ({"missed": "skip", "window": "24h"}, 'window goes with missed="every"'),
        ({"max_per_pass": 10}, "max_per_pass goes with"),
        ({"missed": "every", "max_lateness": "5m"}, 'max_lateness goes with missed="skip"'),
        ({"missed": "every", "window": "0s"}, "above 0"),
        ({"missed": "every", "max_per_pass": 0}, "1 to 10000"),
        ({"missed": "every", "max_per_pass": True}, "1 to 10000"),
        ({"delay": timedelta(seconds=-1)}, "0 or more"),
        ({"jitter": 5}, '"5m"'),
        ({"starts_at": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001  # the mistake
        ({"starts_at": NOON, "ends_at": NOON}, "nothing would fire"),
        ({"ends_at": "soon"}, "aware datetime"),
    ],
)
def test_rules_that_make_no_sense_are_refused(given: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(advice)):
        read_rules(**given)


@pytest.mark.parametrize(
    ("timing", "chosen", "advice"),
    [
        (At(NOON), Rules(starts_at=NOON), "leave them out"),
        (Every(timedelta(minutes=5)), Rules(jitter=timedelta(minutes=5)), "not shorter than the interval"),
        (
            Cron("0 0 29 2 *"),
            Rules(starts_at=NOON, ends_at=NOON + timedelta(days=90)),
            "nothing would ever fire",
        ),
    ],
)
def test_a_timing_and_rules_that_make_no_sense_together_are_refused(
    timing: Timing, chosen: Rules, advice: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(advice)):
        check_together(timing, chosen)


def test_a_timing_and_rules_that_fit_are_taken() -> None:
    check_together(Cron("0 9 * * *"), Rules(starts_at=NOON, ends_at=NOON + timedelta(days=1)))
    check_together(Every(timedelta(minutes=5)), Rules(jitter=timedelta(minutes=1)))
    check_together(Cron("0 9 * * *"), Rules(ends_at=NOON))
