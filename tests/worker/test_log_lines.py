"""Every log line can be written to a file, whatever text it carries."""

import json
import logging
import subprocess
import sys
from datetime import timedelta

import psycopg
import pytest

from holdfast import App
from holdfast.domain.failure import Failure
from holdfast.domain.states import RunOutcome
from holdfast.telemetry.events import AttemptEnded, AttemptFact, Event
from holdfast.telemetry.json_formatter import JsonFormatter
from holdfast.telemetry.log import log_event
from holdfast.telemetry.log_lines import say
from holdfast.telemetry.text_formatter import TextFormatter
from holdfast.worker.failure_from_error import from_error
from support.waiting import until

HALF = "half a pair: \ud83d"


def test_a_line_with_half_a_surrogate_pair_can_be_written(caplog: pytest.LogCaptureFixture) -> None:
    say(logging.getLogger("holdfast.worker"), logging.WARNING, "attempt failed", job=7, error=HALF)
    [record] = caplog.records
    assert record.getMessage().encode() == b'attempt failed: job=7 error="half a pair: \\ud83d"'
    line = JsonFormatter().format(record).encode()
    assert json.loads(line)["error"] == HALF


FORGED = "lost\n2026-01-31T09:00:00 INFO holdfast.worker attempt succeeded: job=7\x1b[2K\u202e\u2028x\x85y"


def line_of(event: Event, formatter: logging.Formatter, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    log_event(event)
    [record] = caplog.records
    return formatter.format(record)


def ended(outcome: RunOutcome, failure: Failure | None = None) -> AttemptEnded:
    fact = AttemptFact(7, 9, "send", "mail", 2, 5)
    return AttemptEnded(fact, outcome, timedelta(milliseconds=1500), failure)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_no_message_passes_for_a_line_of_the_log(
    formatter: logging.Formatter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("shop").warning("%s", FORGED)
    try:
        raise ValueError(FORGED)  # noqa: TRY301  # for its traceback
    except ValueError as error:
        failure = from_error(error)
        logging.getLogger("shop").exception("oh: %s", FORGED)
    lines = [formatter.format(record) for record in caplog.records]
    lines.append(line_of(ended("failed", failure), formatter, caplog))
    for text in lines:
        assert not {"\x1b", "\u202e", "\u2028", "\x85"} & set(text)
        if isinstance(formatter, JsonFormatter):
            assert len(text.splitlines()) == 1
            assert FORGED in (said := json.loads(text)).get("message", said.get("traceback"))
        else:
            assert all(line.startswith("    ") for line in text.splitlines()[1:])


def test_a_retry_is_a_warning_and_an_end_an_error_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failure = Failure("no", type="ValueError", traceback="Traceback:\n  here\nValueError: no\n")
    caplog.set_level(logging.INFO)
    levels: dict[RunOutcome, str] = {"succeeded": "INFO", "retried": "WARNING", "failed": "ERROR"}
    for outcome, level in levels.items():
        line = line_of(ended(outcome, failure), TextFormatter(), caplog)
        assert f" {level} holdfast.worker attempt {outcome}: job=7 kind=send queue=mail attempt=2/5" in line
        assert 'took="1s 500ms"' in line
        assert 'error="ValueError: no"' in line
        assert ("\n      here\n" in line) == (outcome == "failed")
    caplog.set_level(logging.DEBUG)
    assert "\n      here\n" in line_of(ended("retried", failure), TextFormatter(), caplog)


def test_a_job_that_is_put_off_because_it_could_not_run_is_a_warning_with_its_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    line = line_of(ended("snoozed", Failure("no parameter x", "decode_error")), TextFormatter(), caplog)
    assert " WARNING holdfast.worker attempt snoozed: job=7" in line
    assert 'code=decode_error error="no parameter x"' in line
    asked_for = line_of(ended("snoozed"), TextFormatter(), caplog)
    assert " INFO holdfast.worker attempt snoozed: job=7" in asked_for


async def test_arguments_that_do_not_fit_are_warned_of(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with App(dsn) as app:

        @app.job
        async def greet(name: str) -> str:
            return name

        with psycopg.connect(dsn) as conn:
            conn.execute("select holdfast.enqueue('greet', '{\"nmae\": \"Ann\"}')")

        async with app.worker():
            await until(lambda: "attempt snoozed" in caplog.text)
    [record] = [found for found in caplog.records if "attempt snoozed" in found.getMessage()]
    assert record.levelno == logging.WARNING
    assert "there is no parameter nmae" in record.getMessage()


def test_json_has_numbers_and_the_traceback_as_members(caplog: pytest.LogCaptureFixture) -> None:
    failure = Failure("no", type="ValueError", traceback="Traceback: here")
    line = json.loads(line_of(ended("failed", failure), JsonFormatter(), caplog))
    assert (line["attempt"], line["max_attempts"], line["took_ms"]) == (2, 5, 1500)
    assert line["traceback"] == "Traceback: here"


def test_what_is_in_a_group_of_errors_is_named(caplog: pytest.LogCaptureFixture) -> None:
    group = ExceptionGroup("all", [ValueError("one"), ExceptionGroup("inner", [KeyError("two")])])
    failure = from_error(group)
    assert failure.causes == ("ValueError: one", "KeyError: 'two'")
    line = line_of(ended("retried", failure), TextFormatter(), caplog)
    assert "ValueError: one; KeyError: 'two'" in line


@pytest.mark.parametrize(
    ("message", "shown", "kept"),
    [
        ("short", "ValueError: short", "ValueError: short"),
        ("ended\n", "ValueError: ended", "ValueError: ended"),
        ("first\nsecond", "ValueError: first …", "ValueError: first"),
        ("x" * 400, f"ValueError: {'x' * 288}…", f"ValueError: {'x' * 288}"),
        ("x" * 400 + "\nsecond", f"ValueError: {'x' * 288}…", f"ValueError: {'x' * 288}"),
    ],
)
def test_text_says_with_an_ellipsis_that_an_error_goes_on(
    message: str, shown: str, kept: str, caplog: pytest.LogCaptureFixture
) -> None:
    failure = from_error(ValueError(message))
    assert f'error="{shown}"' in line_of(ended("retried", failure), TextFormatter(), caplog)
    assert json.loads(line_of(ended("retried", failure), JsonFormatter(), caplog))["error"] == kept


def test_each_error_of_a_group_says_whether_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    group = ExceptionGroup("all", [ValueError("one\nand more"), KeyError("two")])
    line = line_of(ended("retried", from_error(group)), TextFormatter(), caplog)
    assert "ValueError: one …; KeyError: 'two'\"" in line
    many = ExceptionGroup("all", [ValueError("y" * 290) for _ in range(5)])
    assert line_of(ended("retried", from_error(many)), TextFormatter(), caplog).endswith('y…"')


UNDER_UVICORN = """
import logging.config
from datetime import timedelta
from holdfast.telemetry.events import AttemptEnded, AttemptFact
from holdfast.telemetry.log import log_event

logging.config.dictConfig({
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"default": {"format": "%(levelname)s %(message)s"}},
    "handlers": {"default": {"formatter": "default", "class": "logging.StreamHandler"}},
    "loggers": {
        "uvicorn": {"handlers": ["default"], "level": "INFO", "propagate": False},
        "uvicorn.error": {"level": "INFO"},
        "uvicorn.access": {"handlers": ["default"], "level": "INFO", "propagate": False},
    },
})
log_event(AttemptEnded(AttemptFact(7, 9, "send", "mail", 2, 5), "retried", timedelta(seconds=1)))
log_event(AttemptEnded(AttemptFact(8, 9, "send", "mail", 2, 5), "succeeded", timedelta(seconds=1)))
"""


def test_warnings_appear_under_the_set_up_of_a_web_server() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNDER_UVICORN], capture_output=True, text=True, timeout=60, check=True
    )
    assert "attempt retried: job=7" in done.stderr
    assert "job=8" not in done.stderr
