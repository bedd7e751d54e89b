"""Log records as JSON, one object for each line."""

import json
import logging
from datetime import UTC, datetime

from holdfast.telemetry.log_lines import escaped


class JsonFormatter(logging.Formatter):
    """One JSON object for each line, with the facts of Holdfast's own lines as members, and with those that
    the command adds to others (`holdfast_facts`): the job that they were written in.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": moment, "level": record.levelname, "logger": record.name}
        facts = getattr(record, "holdfast", None)
        if isinstance(facts, dict):
            line |= facts
        else:
            line |= {"message": record.getMessage(), **getattr(record, "holdfast_facts", {})}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # Inside of its strings, JSON reads these escapes back as what they stand for.
        return escaped(json.dumps(line, ensure_ascii=False, default=str))
