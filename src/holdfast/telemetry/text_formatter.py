"""Log records as lines for people."""

import logging
from collections.abc import Mapping
from typing import Any

from holdfast.telemetry.log_lines import escaped, indented, key_values
from holdfast.telemetry.moment import moment


class TextFormatter(logging.Formatter):
    """`2026-01-31T09:00:00.000+00:00 INFO shop packed the box: job=7 run=9 attempt=1`."""

    def format(self, record: logging.LogRecord) -> str:
        line = self._line(record)
        if not (record.exc_info or record.exc_text or record.stack_info):
            return line
        # Another handler may have left in exc_text what it made of exc_info.
        error = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        stack = self.formatStack(record.stack_info) if record.stack_info else None
        return "\n".join(part for part in (line, error, stack) if part)

    @staticmethod
    def _line(record: logging.LogRecord) -> str:
        line = escaped(f"{moment(record.created)} {record.levelname} {record.name} {record.getMessage()}")
        of: Mapping[str, object] | None = getattr(record, "holdfast_facts", None)
        return f"{line}: {key_values(of)}" if of else line

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging's
        return indented(super().formatException(ei))
