"""SQLSTATE codes: the class of error that callers get, and what the log says."""

from datetime import timedelta

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import (
    Conflict,
    ConnectionLost,
    DatabaseError,
    DataRefused,
    ServerUnable,
    StatementFailed,
)
from holdfast.postgres.sqlstate import LOST, Meaning, ServerFailure
from holdfast.postgres.statement_retries import Repeats
from holdfast.postgres.translate import meaning, translate


def _error(code: str | None) -> psycopg.Error:
    if code is None:
        return psycopg.OperationalError("server closed the connection unexpectedly\n\tThis probably means")
    kind = type("Raised", (psycopg.OperationalError,), {"sqlstate": code})
    error: psycopg.Error = kind("said the server\nDETAIL: more")
    return error


@pytest.mark.parametrize(
    ("code", "expected", "is_outcome_unknown", "raised"),
    [
        (None, Meaning.TRANSIENT, True, ConnectionLost),  # a socket that broke
        ("08000", Meaning.TRANSIENT, True, ConnectionLost),
        ("08001", Meaning.TRANSIENT, True, ConnectionLost),
        ("08003", Meaning.TRANSIENT, True, ConnectionLost),
        ("08004", Meaning.TRANSIENT, True, ConnectionLost),
        ("08006", Meaning.TRANSIENT, True, ConnectionLost),
        ("08007", Meaning.TRANSIENT, True, ConnectionLost),  # transaction resolution unknown
        ("08P01", Meaning.TRANSIENT, True, ConnectionLost),  # what pgbouncer says for most things
        ("40000", Meaning.CONFLICT, False, Conflict),
        ("40001", Meaning.CONFLICT, False, Conflict),
        ("40002", Meaning.CONFLICT, False, Conflict),
        ("40003", Meaning.TRANSIENT, True, ConnectionLost),  # statement completion unknown
        ("40P01", Meaning.CONFLICT, False, Conflict),
        ("55P03", Meaning.CONFLICT, False, Conflict),
        ("57P01", Meaning.TRANSIENT, True, ConnectionLost),
        ("57P02", Meaning.TRANSIENT, True, ConnectionLost),
        ("57P03", Meaning.TRANSIENT, False, ServerUnable),
        ("57P05", Meaning.TRANSIENT, False, ServerUnable),
        ("25P03", Meaning.TRANSIENT, False, ServerUnable),
        ("53000", Meaning.TRANSIENT, False, ServerUnable),
        ("53100", Meaning.TRANSIENT, False, ServerUnable),
        ("53200", Meaning.TRANSIENT, False, ServerUnable),
        ("53300", Meaning.TRANSIENT, False, ServerUnable),
        ("25006", Meaning.TRANSIENT, False, ServerUnable),  # a standby, after a failover
        ("57014", Meaning.UNABLE, False, ServerUnable),  # cancelled: not sent again by itself
        ("25P04", Meaning.UNABLE, False, ServerUnable),
        ("58030", Meaning.UNABLE, False, ServerUnable),
        ("22P05", Meaning.DATA, False, DataRefused),
        ("54000", Meaning.DATA, False, DataRefused),
        ("42501", Meaning.FATAL, False, StatementFailed),
        ("P0001", Meaning.FATAL, False, StatementFailed),
        ("57P04", Meaning.FATAL, False, StatementFailed),
        ("23505", Meaning.DATA, False, DataRefused),
        ("42P01", Meaning.FATAL, False, StatementFailed),
        ("XX000", Meaning.FATAL, False, StatementFailed),
    ],
)
def test_each_code_has_its_meaning_and_its_error(
    code: str | None, expected: Meaning, is_outcome_unknown: bool, raised: type[DatabaseError]
) -> None:
    failure = meaning(_error(code))
    assert (failure.meaning, failure.is_outcome_unknown) == (expected, is_outcome_unknown)
    translated = translate(_error(code), "claim")
    assert type(translated) is raised
    assert translated.sqlstate == code
    assert str(translated).startswith("claim: ")
    assert "\n" not in str(translated)


def test_what_psycopg_cannot_encode_is_the_datas_fault() -> None:
    assert meaning(psycopg.DataError("text fields cannot contain NUL")).meaning is Meaning.DATA


def test_a_wrong_call_is_not_taken_for_a_lost_connection() -> None:
    assert meaning(psycopg.ProgrammingError("cannot adapt type")).meaning is Meaning.DATA
    assert meaning(psycopg.InterfaceError("closed")).meaning is Meaning.FATAL


@given(st.from_regex("[0-9A-Z]{5}", fullmatch=True))
def test_every_code_has_a_meaning_and_only_a_lost_session_leaves_the_outcome_open(code: str) -> None:
    failure = meaning(_error(code))
    assert not failure.is_outcome_unknown or failure.is_session_over
    assert not (failure.is_outcome_unknown and failure.meaning is Meaning.FATAL)


failures = st.builds(ServerFailure, st.sampled_from(Meaning), st.just("x"), st.booleans(), st.booleans())


@given(
    failures,
    st.booleans(),
    st.integers(1, 9),
    st.timedeltas(timedelta(), timedelta(minutes=2)),
    st.floats(0, 1, exclude_max=True),
)
def test_nothing_that_may_have_happened_is_repeated_without_a_promise(
    failure: ServerFailure, is_repeatable: bool, tried: int, elapsed: timedelta, luck: float
) -> None:
    wait = Repeats().wait(failure, is_repeatable=is_repeatable, tried=tried, elapsed=elapsed, luck=luck)
    if wait is not None:
        assert failure.meaning in (Meaning.TRANSIENT, Meaning.CONFLICT)
        assert is_repeatable or not failure.is_outcome_unknown
        assert tried < 5
        assert timedelta() < wait <= timedelta(seconds=2)


def test_a_promised_statement_is_sent_again_even_after_one_long_silence() -> None:
    long = timedelta(minutes=1)
    assert Repeats().wait(LOST, is_repeatable=True, tried=1, elapsed=long, luck=0.5)
    assert Repeats().wait(LOST, is_repeatable=True, tried=2, elapsed=long, luck=0.5) is None
