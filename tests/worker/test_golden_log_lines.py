"""The exact lines of `holdfast worker`, which people and programs read: no speed-up may change one."""

import json
import logging
from datetime import timedelta
from typing import NamedTuple

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.states import RunOutcome
from holdfast.telemetry.events import AttemptEnded, AttemptFact
from holdfast.telemetry.json_formatter import JsonFormatter
from holdfast.telemetry.log import log_event
from holdfast.telemetry.text_formatter import TextFormatter

NINE = 1769850000.0  # 2026-01-31T09:00:00Z


class Line(NamedTuple):
    event: AttemptEnded
    text: str
    json: str


def ended(
    fact: AttemptFact, took: timedelta, outcome: RunOutcome = "succeeded", failure: Failure | None = None
) -> AttemptEnded:
    return AttemptEnded(fact, outcome, took, failure)


LINES = {
    "plain": Line(
        ended(AttemptFact(7, 9, "send", "mail", 1, 20), timedelta(milliseconds=12)),
        "INFO holdfast.worker attempt succeeded: job=7 kind=send queue=mail attempt=1/20 run=9 took=12ms",
        '"level": "INFO", "logger": "holdfast.worker", "event": "attempt succeeded", '
        '"job": 7, "kind": "send", '
        '"queue": "mail", "attempt": 1, "max_attempts": 20, "run": 9, "took_ms": 12}',
    ),
    "a step and a long time": Line(
        ended(AttemptFact(7, 9, "order", "mail", 2, 5, "pay"), timedelta(minutes=1, milliseconds=1500)),
        "INFO holdfast.worker attempt succeeded: job=7 kind=order step=pay queue=mail attempt=2/5 run=9 "
        'took="1m 1s 500ms"',
        '"level": "INFO", "logger": "holdfast.worker", "event": "attempt succeeded", '
        '"job": 7, "kind": "order", '
        '"step": "pay", "queue": "mail", "attempt": 2, "max_attempts": 5, "run": 9, "took_ms": 61500}',
    ),
    "names that are quoted and escaped": Line(
        ended(AttemptFact(1 << 62, 9, 'a "b"=c', "Grüße\u2028\n", 1, 20), timedelta()),
        'INFO holdfast.worker attempt succeeded: job=4611686018427387904 kind="a \\"b\\"=c" '
        'queue="Grüße\\u2028\\n" attempt=1/20 run=9 took=1ms',
        '"level": "INFO", "logger": "holdfast.worker", "event": "attempt succeeded", '
        '"job": 4611686018427387904, '
        '"kind": "a \\"b\\"=c", "queue": "Grüße\\u2028\\n", "attempt": 1, "max_attempts": 20, "run": 9, '
        '"took_ms": 1}',
    ),
    "an error": Line(
        ended(
            AttemptFact(7, 9, "send", "mail", 1, 20),
            timedelta(seconds=2),
            "retried",
            Failure("no\nmore", type="ValueError"),
        ),
        "WARNING holdfast.worker attempt retried: job=7 kind=send queue=mail attempt=1/20 run=9 took=2s "
        'code=handler_error error="ValueError: no …"',
        '"level": "WARNING", "logger": "holdfast.worker", "event": "attempt retried", '
        '"job": 7, "kind": "send", '
        '"queue": "mail", "attempt": 1, "max_attempts": 20, "run": 9, "took_ms": 2000, '
        '"code": "handler_error", '
        '"error": "ValueError: no"}',
    ),
}


@pytest.fixture(params=LINES)
def line(request: pytest.FixtureRequest) -> Line:
    return LINES[request.param]


def record_at_nine(event: AttemptEnded, caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    caplog.set_level(logging.INFO)
    log_event(event)
    [record] = caplog.records
    record.created = NINE + 0.0425
    return record


def test_text(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    record = record_at_nine(line.event, caplog)
    assert TextFormatter().format(record) == f"2026-01-31T09:00:00.042+00:00 {line.text}"


def test_json(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    record = record_at_nine(line.event, caplog)
    written = JsonFormatter().format(record)
    assert written == f'{{"time": "2026-01-31T09:00:00.042+00:00", {line.json}'
    assert json.loads(written)["kind"] == line.event.of.kind


def test_a_line_of_another_logger(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("shop").warning("packed %s", "box 7\n")
    [record] = caplog.records
    record.created = NINE
    record.holdfast_facts = {"job": 7, "run": 9, "attempt": 1}
    assert TextFormatter().format(record) == (
        "2026-01-31T09:00:00.000+00:00 WARNING shop packed box 7\\n: job=7 run=9 attempt=1"
    )
    assert JsonFormatter().format(record) == (
        '{"time": "2026-01-31T09:00:00.000+00:00", "level": "WARNING", "logger": "shop", '
        '"message": "packed box 7\\n", "job": 7, "run": 9, "attempt": 1}'
    )
