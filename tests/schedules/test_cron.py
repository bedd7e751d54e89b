"""Cron expressions: what is read, what is refused and how, and a second opinion on when they come."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.timing import Cron
from holdfast.errors import InvalidInput

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

moments = st.timedeltas(timedelta(), timedelta(days=36_525)).map(
    lambda age: NEW_YEAR - timedelta(9_000) + age
)


@st.composite
def parts(draw: st.DrawFn, low: int, high: int, names: list[str] | None = None) -> str:
    """A number, a range or one with a step; names where the field has them. No range of one number:
    the other library takes it for the whole field.
    """

    def word(number: int) -> str:
        return names[number - low] if names and draw(st.booleans()) else str(number)

    first = draw(st.integers(low, high - 1))
    last = draw(st.integers(first + 1, high))
    step = draw(st.integers(1, high - low))
    return draw(st.sampled_from([word(first), f"{word(first)}-{word(last)}", f"{first}-{last}/{step}"]))


def fields(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    listed = st.lists(parts(low, high, names), min_size=1, max_size=3).map(",".join)
    stepped = st.integers(2, high - low).map(lambda step: f"*/{step}")
    return st.one_of(st.just("*"), listed, stepped)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Five or six fields, with days of the month that every month has, chosen by one of the two fields."""
    by_weekday = draw(st.booleans())
    days = "*" if by_weekday else draw(fields(1, 28))
    weekdays = draw(fields(0, 6, DAYS)) if by_weekday else "*"
    seconds = draw(st.none() | fields(0, 59))
    rest = [draw(fields(0, 59)), draw(fields(0, 23)), days, draw(fields(1, 12, MONTHS)), weekdays]
    return " ".join(rest if seconds is None else [seconds, *rest])


def second_opinion(expression: str, moment: datetime, *, is_back: bool) -> datetime:
    is_six = len(expression.split()) == 6
    other = croniter(expression, moment, second_at_beginning=is_six)
    found = other.get_prev(datetime) if is_back else other.get_next(datetime)
    assert isinstance(found, datetime)
    return found


@pytest.mark.requirement("S2.38", "S3.15")
@settings(max_examples=300, deadline=None)
@given(expressions(), moments)
def test_ordinary_dates_agree_with_another_library(expression: str, moment: datetime) -> None:
    timing = Cron(expression)
    following = timing.first_after(moment)
    assert following == second_opinion(expression, moment, is_back=False)
    before = timing.latest(moment - timedelta(microseconds=1), datetime.min.replace(tzinfo=UTC))
    assert before == second_opinion(expression, moment, is_back=True)


@given(expressions(), moments, st.integers(1, 20))
def test_a_stretch_is_what_asking_again_and_again_gives(
    expression: str, moment: datetime, limit: int
) -> None:
    timing = Cron(expression, "Europe/Oslo")
    asked, last = [], moment
    for _ in range(limit):
        following = timing.first_after(last)
        assert following is not None
        assert following > last
        asked.append(last := following)
    assert timing.between(moment, last, 100) == asked
    assert timing.between(moment, last, limit - 1) == asked[: limit - 1]
    assert timing.count(moment, last, 100) == limit
    assert timing.latest(last, moment) == last


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 0 * * *"),
        ("@Hourly", "0 * * * *"),
    ],
)
def test_short_forms_mean_their_long_ones(short: str, long: str) -> None:
    ahead = NEW_YEAR + timedelta(days=800)
    assert Cron(short).between(NEW_YEAR, ahead, 50) == Cron(long).between(NEW_YEAR, ahead, 50)


def test_six_fields_begin_with_seconds() -> None:
    assert Cron("30 5 9 * * *").first_after(NEW_YEAR) == NEW_YEAR.replace(hour=9, minute=5, second=30)


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("0 9 l * *", datetime(2026, 1, 31, 9, tzinfo=UTC)),  # the last day of the month
        ("0 9 lw * *", datetime(2026, 1, 30, 9, tzinfo=UTC)),  # its last working day
        ("0 9 * * mon#1", datetime(2026, 1, 5, 9, tzinfo=UTC)),  # its first Monday
        ("0 9 * * 5l", datetime(2026, 1, 30, 9, tzinfo=UTC)),  # its last Friday
        ("0 9 13 * fri", datetime(2026, 1, 2, 9, tzinfo=UTC)),  # the 13th, and any Friday
        ("0 9 * * 7", datetime(2026, 1, 4, 9, tzinfo=UTC)),  # 0 and 7 are Sunday
        ("0 0 29 2 *", datetime(2028, 2, 29, tzinfo=UTC)),
        ("0 0 * 2 mon#5", datetime(2044, 2, 29, tzinfo=UTC)),
    ],
)
def test_days_that_only_some_months_have_are_found(expression: str, first: datetime) -> None:
    assert Cron(expression).first_after(NEW_YEAR) == first
    assert Cron(expression).latest(first, NEW_YEAR) == first


@pytest.mark.requirement("S2.38")
@pytest.mark.parametrize(
    ("expression", "advice"),
    [
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("60 * * * *", "minute '60' is not valid"),
        ("0 24 * * *", "hour '24' is not valid"),
        ("0 0 0 * *", "day of month '0' is not valid"),
        ("0 0 * 13 *", "month '13' is not valid"),
        ("0 0 * * 8", "day of week '8' is not valid"),
        ("61 0 0 * * *", "second '61' is not valid"),
        ("0 9 * * fri-mon", "list the values"),
        ("*/90 * * * *", 'every="90m"'),
        ("0 */24 * * *", "is too large"),
        ("0 9 * *", "has 4 fields"),
        ("0 0 9 * * * 2026", "has 7 fields"),
        ("", "has 0 fields"),
        ("@reboot", "@daily"),
        ("@every 5m", 'every="5m"'),
        ("0 9 * * mon; drop table job", "has 8 fields"),
        ("\u0661 * * * *", "is not valid"),
        ("*/0 * * * *", "is not valid"),
        ("0 9 * * mon#6", "is not valid"),
        ("0 " * 200, "the longest is 200"),
    ],
)
def test_an_impossible_expression_is_refused_with_what_is_wrong(expression: str, advice: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(advice)):
        Cron(expression)


@pytest.mark.parametrize(
    ("zone", "advice"),
    [
        ("Oslo", '"Europe/Oslo"'),
        ("europe/oslo", '"Europe/Oslo"'),
        ("Europe/Olso", '"Europe/Oslo"'),
        ("Europe", "IANA name"),
        ("localtime", "IANA name"),
        ("", "IANA name"),
        ("../../etc/passwd", "IANA name"),
        ("/etc/localtime", "IANA name"),
        ("UTC\0", "IANA name"),
    ],
)
def test_an_unknown_zone_is_refused_with_one_that_comes_near(zone: str, advice: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(advice)):
        Cron("@daily", zone)


@given(st.text(max_size=30) | expressions().flatmap(lambda text: st.permutations(text).map("".join)))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        timing = Cron(text)
    except InvalidInput:
        return
    assert timing.first_after(NEW_YEAR) is not None
    assert timing.described.endswith(", UTC")


@pytest.mark.parametrize(
    ("expression", "zone", "words"),
    [
        ("0 9 * * mon-fri", "Europe/Oslo", "at 09:00 on Monday through Friday, Europe/Oslo"),
        ("*/15 * * * *", "UTC", "every 15th minute of every hour, UTC"),
        ("30 0 0 l * *", "Asia/Tokyo", "at 00:00:30 on the last day of every month, Asia/Tokyo"),
        ("@weekly", "UTC", "at 00:00 on Sunday, UTC"),
    ],
)
def test_an_expression_is_described_in_plain_english(expression: str, zone: str, words: str) -> None:
    assert Cron(expression, zone).described == words


def test_the_calendar_has_an_end_and_asking_past_it_answers_none() -> None:
    timing = Cron("0 0 29 2 *", "Pacific/Auckland")
    assert timing.first_after(datetime(9999, 12, 30, tzinfo=UTC)) is None
    assert timing.latest(datetime(1, 1, 2, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)) is None


def test_zones_are_known_where_the_machine_has_none() -> None:
    """As on a slim container: Python finds nothing of its own, and takes those of a package."""
    asked = "from holdfast.domain.timing import Cron; print(Cron('0 9 * * *', 'Europe/Oslo').described)"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "at 09:00 every day, Europe/Oslo\n"
