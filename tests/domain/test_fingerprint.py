"""Which failures belong together: their fingerprint does not change with numbers and ids, and with little
else.
"""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.domain.failure import Failure
from holdfast.domain.fingerprint import PATTERN_LIMIT, fingerprint_of, identified, pattern_of
from holdfast.domain.traceback_frames import Frame

TRACEBACK = """Traceback (most recent call last):
  File "/srv/app/releases/{release}/pay.py", line {line}, in {function}
    charge(card)
  File "/usr/lib/python3.11/site-packages/bank/api.py", line 7, in post
    raise Refused(number)
bank.Refused: no
"""

words = st.text(string.ascii_lowercase, min_size=2, max_size=8)
numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)).map(str)
quotable = st.text(st.characters(exclude_characters="'\n", exclude_categories=["Cs"]), max_size=20)
varying = {
    "number": numbers,
    "uuid": st.uuids().map(str),
    "address": st.integers(0, 2**64).map(hex),
    "hash": st.binary(min_size=20, max_size=20).map(bytes.hex),
    "quoted": quotable.map(lambda text: f"'{text}'"),
    "path": st.lists(words, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts)),
    "email": st.tuples(words, words).map(lambda names: f"{names[0]}@{names[1]}.example"),
    "date": st.dates().map(str),
    "time": st.datetimes().map(lambda time: time.isoformat(" ")),
    "url": st.lists(words, max_size=3).map(lambda parts: "https://shop.example/" + "/".join(parts)),
}


@st.composite
def told_twice(draw: st.DrawFn) -> tuple[str, str]:
    """One sentence about two jobs."""
    sorts = draw(st.lists(st.sampled_from(sorted(varying)), min_size=1, max_size=4))
    between = [draw(words) for _ in range(len(sorts) + 1)]
    first, second = (
        " ".join(
            [
                between[0],
                *(f"{draw(varying[sort])} {word}" for sort, word in zip(sorts, between[1:], strict=True)),
            ]
        )
        for _ in range(2)
    )
    return first, second


def one(message: str = "no", *, kind: str = "pay", type: str = "ValueError", function: str = "charge") -> str:  # noqa: A002
    frame = Frame("/srv/pay.py", 3, function, "", is_own=True)
    return fingerprint_of(kind=kind, code="handler_error", type=type, message=message, frame=frame)


@given(told_twice())
@example(("order order_1 refused", "order order_123456 refused"))
@example(("took 1.5s of 20%", "took 300s of 7.25%"))
@example(("no rows for ids 1, 2, 3", "no rows for ids 4"))
@example(("customer cus_9s6XKzkNRiz8i3 is gone", "customer cus_NffrFeUfNV2Hib is gone"))
def test_what_differs_from_job_to_job_does_not_count(messages: tuple[str, str]) -> None:
    first, second = messages
    assert pattern_of(first) == pattern_of(second)
    assert one(first) == one(second)


@given(st.lists(words, min_size=2, max_size=2, unique=True))
def test_another_type_function_or_word_is_another_group(names: list[str]) -> None:
    first, second = names
    assert one(type=first) != one(type=second)
    assert one(function=first) != one(function=second)
    assert one(f"cannot {first} it") != one(f"cannot {second} it")


@given(st.text(st.characters(), max_size=5_000), st.text(st.characters(), max_size=50))
def test_every_failure_has_a_fingerprint(message: str, type_: str) -> None:
    found = identified(Failure(message, type=type_, traceback=message), "pay")
    assert found.fingerprint is not None
    assert len(found.fingerprint) == 16
    assert len(pattern_of(message)) <= PATTERN_LIMIT
    found.to_json().encode()


@pytest.mark.parametrize(
    ("message", "pattern"),
    [
        ("card 4111 of a.b@shop.example refused", "card <n> of <email> refused"),
        ("can't read /srv/data/7.csv: line 12", "can't read <path>: line <n>"),
        ("'amount' is missing", "<text> is missing"),
        ("<Order object at 0x7f12ab> not sent", "<Order object at <id>> not sent"),
        ("not due\n  before 2026-01-31T09:00Z", "not due before <time>"),
        ("application/json and/or utf8", "application/json and/or utf<n>"),
    ],
)
def test_a_pattern_can_be_read(message: str, pattern: str) -> None:
    assert pattern_of(message) == pattern


def test_the_innermost_function_of_your_own_code_counts_and_its_line_and_folder_do_not() -> None:
    def failure(**place: object) -> Failure:
        return identified(Failure("no", type="bank.Refused", traceback=TRACEBACK.format(**place)), "pay")

    before = failure(release="2026-01-01", line=12, function="charge")
    after = failure(release="2026-02-01", line=15, function="charge")
    other = failure(release="2026-01-01", line=12, function="refund")
    assert before.frame == "charge in pay.py"
    assert before.fingerprint == after.fingerprint
    assert before.fingerprint != other.fingerprint


def test_a_failure_that_no_function_raised_is_grouped_by_its_kind() -> None:
    def fingerprint(message: str, kind: str, code: str = "handler_error") -> str | None:
        return identified(Failure(message, code), kind).fingerprint  # type: ignore[arg-type]

    assert fingerprint("took longer than 1h", "pay", "timeout") == fingerprint("5m", "pay", "timeout")
    assert fingerprint("lost", "pay", "lease_lost") != fingerprint("lost", "mail", "lease_lost")
    assert fingerprint("lost", "pay", "lease_lost") != fingerprint("lost", "pay", "timeout")
    assert fingerprint("no such shop", "pay") != fingerprint("no such shop", "mail")
    assert fingerprint("no such shop", "pay") != fingerprint("no such order", "pay")
