"""What a loop that keeps failing says: a line for each reason, and one when it is over."""

import logging

import pytest

from holdfast.errors import ConnectionFailed, ConnectionLost, HoldfastError, PoolTimeout, StatementFailed
from holdfast.postgres import failure_log
from holdfast.postgres.failure_log import FailureLog

logger = logging.getLogger("holdfast.test")
FORBIDDEN = StatementFailed("claim: permission denied for table ready", sqlstate="42501")
CANCELLED = StatementFailed("claim: canceling statement", sqlstate="57014")


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger.name)
    return caplog


def lines(told: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage().partition(" (")[0]) for record in told.records]


def test_a_reason_is_said_once_however_often_it_is_met(told: pytest.LogCaptureFixture) -> None:
    log = FailureLog(logger, "claiming")
    assert [log.failed(FORBIDDEN) for _ in range(100)] == [True] + 99 * [False]
    [(level, line)] = lines(told)
    assert level == "WARNING"
    assert line == (
        "claiming fails and is retried: StatementFailed: claim: permission denied for table ready"
    )


def test_another_reason_is_said_and_the_end_too(told: pytest.LogCaptureFixture) -> None:
    log = FailureLog(logger, "claiming")
    for error in (FORBIDDEN, CANCELLED, CANCELLED):
        log.failed(error)
    log.worked()
    log.worked()
    assert [level for level, _ in lines(told)] == ["WARNING", "WARNING", "WARNING"]
    assert "claiming works again after" in lines(told)[-1][1]
    assert log.failed(FORBIDDEN), "after it was over, the same reason is news"


def test_reasons_that_take_turns_are_said_once_each(told: pytest.LogCaptureFixture) -> None:
    log = FailureLog(logger, "claiming")
    for _ in range(50):
        log.failed(FORBIDDEN)
        log.failed(CANCELLED)
    assert len(lines(told)) == 2


def test_a_reason_that_comes_back_after_a_while_is_said_again(
    told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    met = [(1.0, FORBIDDEN), (2.0, CANCELLED), (100.0, CANCELLED), (101.0, FORBIDDEN)]
    moments = iter([moment for moment, _ in met])
    monkeypatch.setattr(failure_log, "monotonic", lambda: next(moments))
    log = FailureLog(logger, "claiming")
    for _, error in met:
        log.failed(error)
    assert len(lines(told)) == 3


def test_rows_and_process_ids_in_postgress_words_are_not_another_reason(
    told: pytest.LogCaptureFixture,
) -> None:
    log = FailureLog(logger, "settling")
    for number in range(10):
        log.failed(StatementFailed(f"settle: process {number} waits", sqlstate="40P01"))
    assert len(lines(told)) == 1


def test_a_lost_connection_is_left_to_the_pool_which_says_it_once_for_all(
    told: pytest.LogCaptureFixture,
) -> None:
    log = FailureLog(logger, "claiming")
    for error in (ConnectionFailed("no route"), ConnectionLost("cut"), ConnectionFailed("no route")):
        log.failed(error)
    log.worked()
    assert lines(told) == []
    assert log.failed(PoolTimeout(10, max_size=4)), "of which the pool says nothing"


def test_any_error_has_a_reason(told: pytest.LogCaptureFixture) -> None:
    log = FailureLog(logger, "beating")
    for error in (HoldfastError("one\ntwo"), HoldfastError("one"), HoldfastError("other"), ValueError()):
        log.failed(error)
    assert [line for _, line in lines(told)] == [
        "beating fails and is retried: HoldfastError: one",
        "beating fails and is retried: HoldfastError: other",
        "beating fails and is retried: ValueError",
    ]


def test_a_timeout_is_one_reason_however_long_was_waited(told: pytest.LogCaptureFixture) -> None:
    log = FailureLog(logger, "asking to lead")
    for seconds in (10, 6.97, 6.95):
        log.failed(TimeoutError(f"db:5432/shop did not answer within {seconds} s"))
    assert [line for _, line in lines(told)] == [
        "asking to lead fails and is retried: TimeoutError: db:5432/shop did not answer within 10 s"
    ]
