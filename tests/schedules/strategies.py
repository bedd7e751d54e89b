"""Timings and rules of every sort, for tests that hold for all of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from holdfast.domain.schedule_rules import Rules
from holdfast.domain.timing import At, Cron, Every, Timing

EPOCH = datetime(2026, 3, 27, tzinfo=UTC)  # two days before clocks in Europe go forward
ZONES = ["UTC", "Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
EXPRESSIONS = [
    "*/7 * * * *",
    "30 2 * * *",
    "0 0,1,2,3 * * *",
    "15 */6 * * mon-sat",
    "*/20 30 1-3 * * *",
    "@daily",
    "@hourly",
    "0 0 l * *",
]

moments = st.timedeltas(timedelta(), timedelta(days=30_000)).map(lambda age: EPOCH - timedelta(9_000) + age)
near = st.timedeltas(timedelta(), timedelta(days=4)).map(lambda age: EPOCH + age)
timings: st.SearchStrategy[Timing] = st.one_of(
    st.builds(Cron, st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES)),
    st.builds(Every, st.timedeltas(timedelta(minutes=3), timedelta(days=2))),
    st.builds(At, near),
)
_lengths = st.timedeltas(timedelta(minutes=1), timedelta(days=3))


@st.composite
def _rules(draw: st.DrawFn) -> Rules:
    missed = draw(st.sampled_from(["latest", "every", "skip"]))
    extra: dict[str, Any] = {"missed": missed}
    if missed == "every":
        extra["window"] = draw(st.none() | _lengths)
    if missed == "skip":
        extra["max_lateness"] = draw(st.none() | _lengths)
    if missed != "latest":
        extra["max_per_pass"] = draw(st.none() | st.integers(1, 5))
    if draw(st.booleans()):
        extra["starts_at"] = draw(near)
    if draw(st.booleans()):
        extra["ends_at"] = draw(near)
    if extra.get("starts_at", EPOCH) >= extra.get("ends_at", EPOCH + timedelta(days=5)):
        extra.pop("ends_at", None)
    return Rules(
        overlap=draw(st.sampled_from(["allow", "skip", "queue"])),
        delay=draw(st.sampled_from([timedelta(), timedelta(minutes=2)])),
        jitter=draw(st.sampled_from([timedelta(), timedelta(minutes=1)])),
        **extra,
    )


rules = _rules()
