"""Where a worker's log lines go: stderr, as key=value or JSON, each with the job that it was written in."""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from holdfast.telemetry.json_formatter import JsonFormatter
from holdfast.telemetry.log_lines import escaped, indented, key_values
from holdfast.telemetry.python_warnings import log_warnings
from holdfast.worker.current_run import current_run, log_facts

LogFormat = Literal["text", "json"]


def set_up_logging(log_format: LogFormat, level: str) -> None:
    """Send everything from this level on to stderr, Python's warnings too, in place of what was set up
    before.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_add_facts)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    log_warnings()


class TextFormatter(logging.Formatter):
    """`2026-01-31T09:00:00.000+00:00 INFO shop packed the box: job=7 run=9 attempt=1`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802  # logging's
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's
        line = escaped(super().formatMessage(record))
        of: Mapping[str, object] | None = getattr(record, "holdfast_facts", None)
        return f"{line}: {key_values(of)}" if of else line

    def format(self, record: logging.LogRecord) -> str:
        if not record.exc_info:
            return super().format(record)
        # Another handler may have left there what it made of the error.
        found, record.exc_text = record.exc_text, None
        try:
            return super().format(record)
        finally:
            record.exc_text = found

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging's
        return indented(super().formatException(ei))


def _add_facts(record: logging.LogRecord) -> bool:
    """A line of the user's own, written while a job runs, says which one; a warning of Python's says its
    place too. The message is not formatted here, where an error would reach the code that logs: formatters do
    that, and logging reports what they raise.
    """
    if not hasattr(record, "holdfast"):
        facts = {**getattr(record, "holdfast_warning", {}), **(_job_of(record) or {})}
        if facts:
            record.holdfast_facts = facts
    return True


def _job_of(record: logging.LogRecord) -> Mapping[str, object] | None:
    """As `ctx.log` has it, which is what comes from a child process, or what runs in this task or thread."""
    if all(hasattr(record, name) for name in ("job", "run", "attempt")):
        return {name: getattr(record, name) for name in ("job", "run", "attempt")}
    claimed = current_run.get(None)
    return None if claimed is None else log_facts(claimed)
