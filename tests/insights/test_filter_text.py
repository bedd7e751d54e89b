"""The text of a filter: what it means, how it is written back, and the error for a wrong one."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job_filter import (
    FILTER_STATES,
    ArgumentMatch,
    JobFilter,
    NumberBound,
    TimeBound,
)
from holdfast.errors import InvalidFilter, InvalidInput

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
numbers = st.integers(0, 2**63 - 1)
comparisons = st.sampled_from(["<", "<=", ">", ">="])
ages = st.timedeltas(timedelta(), timedelta(days=10_000))
times = st.datetimes(datetime(1970, 1, 1), datetime(2900, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
json_values = st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.text(max_size=20))


def several(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values, max_size=3, unique=True).map(tuple)


filters = st.builds(
    JobFilter,
    ids=several(numbers),
    states=several(st.sampled_from(FILTER_STATES)),
    kinds=several(texts),
    queues=several(texts),
    tags=several(texts),
    workers=several(numbers),
    schedules=several(texts),
    failures=several(texts),
    flows=several(numbers),
    groups=several(numbers),
    priority=several(st.builds(NumberBound, st.sampled_from(["<", "=", ">="]), numbers)),
    attempt=several(st.builds(NumberBound, st.sampled_from(["<=", "=", ">"]), numbers)),
    created=several(
        st.one_of(st.builds(TimeBound, comparisons, ages), st.builds(TimeBound, comparisons, time=times))
    ),
    finished=several(st.builds(TimeBound, comparisons, ages)),
    errors=several(texts),
    arguments=several(
        st.builds(
            ArgumentMatch,
            several(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)).filter(bool),
            json_values.map(json.dumps),
        )
    ),
)


@given(filters)
def test_a_filter_is_read_back_from_its_own_text(job_filter: JobFilter) -> None:
    assert parse_filter(str(job_filter)) == job_filter


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_an_error_that_points_into_it(text: str) -> None:
    error = _error_of(text)
    if error is not None:
        assert 0 <= error.start <= len(text)
        assert error.start < error.end <= len(text) + 1
        assert error.advice


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", JobFilter()),
        ("state:failed,expired", JobFilter(states=("failed", "expired"))),
        ("  kind:pay\tqueue:mail ", JobFilter(kinds=("pay",), queues=("mail",))),
        ("tag:vip tag:eu", JobFilter(tags=("vip", "eu"))),
        ('error:"card \\"gold\\" declined"', JobFilter(errors=('card "gold" declined',))),
        ("attempt:>3 priority:0", JobFilter(attempt=(NumberBound(">", 3),), priority=(NumberBound("=", 0),))),
        ("created:>1h", JobFilter(created=(TimeBound(">", age=timedelta(hours=1)),))),
        (
            "finished:>=2026-01-31",
            JobFilter(finished=(TimeBound(">=", time=datetime(2026, 1, 31, tzinfo=UTC)),)),
        ),
        ("args.customer.id:42", JobFilter(arguments=(ArgumentMatch(("customer", "id"), "42"),))),
        ('args.customer.id:"42"', JobFilter(arguments=(ArgumentMatch(("customer", "id"), '"42"'),))),
        ("args.locale:nb", JobFilter(arguments=(ArgumentMatch(("locale",), '"nb"'),))),
        (
            "flow:12 schedule:nightly worker:3 id:5",
            JobFilter((5,), flows=(12,), schedules=("nightly",), workers=(3,)),
        ),
    ],
)
def test_what_a_text_means(text: str, meant: JobFilter) -> None:
    assert parse_filter(text) == meant


@pytest.mark.parametrize(
    ("text", "pointed_at", "said"),
    [
        ("stat:failed", "stat", 'did you mean "state"'),
        ("kind:pay state:faild", "faild", 'did you mean "failed"'),
        ("42", "42", "write id:42"),
        ("failed", "failed", "the words are id, state, kind"),
        ("kind:charge AND state:failed", "AND", "leave it out: all terms must match"),
        ("error:bank refused state:failed", "refused", 'needs quotes: error:"bank refused"\n'),
        ("error:the bank has refused", "bank", 'needs quotes: error:"the bank has refused"\n'),
        ("attempt:many", "many", "not a whole number"),
        ("created:1h", "1h", "takes < or >"),
        ("created:>soon", ">soon", "neither an age"),
        ('error:"abc', '"abc', "has no end"),
        ("kind:a kind:b", "kind:b", "a second time"),
        ("args:1", "args:1", "which argument"),
        ("error:a,b", "b", "one value"),
        ('kind:"a"b', "b", "a space must separate"),
        ("id:99999999999999999999", "99999999999999999999", "not a whole number"),
    ],
)
def test_an_error_shows_where_and_what_there_is(text: str, pointed_at: str, said: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(text)
    assert text[caught.value.start : caught.value.end] == pointed_at
    assert said in str(caught.value)
    assert f"  {text}\n  {' ' * caught.value.start}{'^' * len(pointed_at)}" in str(caught.value)


def test_a_filter_that_is_not_a_text_or_too_long_is_refused() -> None:
    with pytest.raises(InvalidInput, match="give its text"):
        parse_filter(42)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="at most 10,000"):
        parse_filter("kind:" + "x" * 10_000)


def _error_of(text: str) -> InvalidFilter | None:
    try:
        parse_filter(text)
    except InvalidFilter as error:
        return error
    return None
