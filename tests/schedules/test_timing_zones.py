"""The law of daylight saving holds in every IANA zone, at transitions sampled again in each run."""

import random
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from holdfast.domain.timing import Cron
from schedules.wall_clock_reference import Fields, watched
from schedules.zones import FIRST_YEAR, LAST_YEAR, ZONES, Transition, transitions

HOUR = timedelta(hours=1)
YEARS_PER_ZONE = 8
PER_ZONE = 3
ALL_HOURS = frozenset(range(24))


def sampled() -> list[Transition]:
    """Some of each zone's, the largest jump seen among them."""
    chosen = []
    for zone in ZONES:
        years = random.sample(range(FIRST_YEAR, LAST_YEAR + 1), YEARS_PER_ZONE)
        found = [transition for year in years for transition in transitions(zone, year)]
        found.sort(key=lambda transition: abs(transition.change), reverse=True)
        chosen += found[:1] + random.sample(found[1:], min(PER_ZONE - 1, len(found[1:])))
    return chosen


def around(transition: Transition) -> tuple[datetime, datetime]:
    reach = 2 * HOUR + abs(transition.change)
    return transition.moment - reach, transition.moment + reach


def some_fields(transition: Transition) -> list[Fields]:
    """A pace, and times of the day that meet what is left out or comes twice."""
    begin, end = around(transition)
    zone = ZoneInfo(transition.zone)
    hours = sorted(
        {
            moment.astimezone(zone).hour
            for moment in (begin, transition.moment - HOUR / 60, transition.moment, end)
        }
    )
    minutes = frozenset(random.sample(range(60), random.choice([1, 1, 2, 5])))
    return [
        Fields(minutes, ALL_HOURS),
        Fields(minutes, frozenset(random.sample(hours, random.randint(1, len(hours))))),
        Fields(minutes, frozenset(range(min(hours), max(hours) + 1)) - {23}),
    ]


@pytest.mark.requirement("S3.17")
def test_plan_times_follow_the_law_at_transitions_of_every_zone() -> None:
    seen = sampled()
    for transition in seen:
        begin, end = around(transition)
        for fields in filter(lambda fields: fields.hours, some_fields(transition)):
            timing = Cron(str(fields), transition.zone)
            expected = watched(fields, ZoneInfo(transition.zone), begin, end)
            place = f"{transition}, {fields}"
            assert timing.between(begin, end, 10_000) == expected, place
            check_each_question(timing, expected, begin, end, place)
    assert len({transition.zone for transition in seen}) > 300


def check_each_question(
    timing: Cron, expected: list[datetime], begin: datetime, end: datetime, place: str
) -> None:
    """Asked at the plan times themselves and in between, forwards and backwards."""
    length = (end - begin) // timedelta(microseconds=1)
    asked = [begin + timedelta(microseconds=random.randrange(length)) for _ in range(4)]
    asked += random.sample(expected, min(2, len(expected)))
    for moment in asked:
        later = [plan for plan in expected if plan > moment]
        past = [plan for plan in expected if plan <= moment]
        if later:
            assert timing.first_after(moment) == later[0], f"{place} after {moment}"
        assert timing.latest(moment, begin) == (past[-1] if past else None), f"{place} until {moment}"
