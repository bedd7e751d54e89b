"""Where a worker's log lines go: stderr, as key=value or JSON, each with the job that it was written in."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Literal

from holdfast.telemetry.batching_handler import BatchingHandler
from holdfast.telemetry.dev_formatter import DevFormatter
from holdfast.telemetry.json_formatter import JsonFormatter
from holdfast.telemetry.python_warnings import log_warnings
from holdfast.telemetry.text_formatter import TextFormatter
from holdfast.worker.current_run import current_run, log_facts

LogFormat = Literal["text", "json", "dev"]


def set_up_logging(log_format: LogFormat, level: str) -> None:
    """Send everything from this level on to stderr, Python's warnings too, in place of what was set up
    before.
    """
    handler = BatchingHandler(sys.stderr)
    handler.addFilter(_add_facts)
    handler.setFormatter(_formatter(log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    log_warnings()


def _formatter(log_format: LogFormat) -> logging.Formatter:
    match log_format:
        case "json":
            return JsonFormatter()
        case "text":
            return TextFormatter()
        case "dev":
            return DevFormatter(is_coloured=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))


@contextmanager
def batched_logging() -> Iterator[None]:
    """While a worker runs: lines are written many at once, so that one for each attempt costs little. Does
    nothing to handlers that the app has set up.
    """
    with ExitStack() as stack:
        for handler in logging.root.handlers:
            if isinstance(handler, BatchingHandler):
                stack.enter_context(handler.batching())
        yield


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
