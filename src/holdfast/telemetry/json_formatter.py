"""Log records as JSON, one object for each line."""

import json
import logging
from collections.abc import Mapping
from json.encoder import encode_basestring

from holdfast.telemetry.log_lines import escaped
from holdfast.telemetry.moment import moment

_encoded = json.JSONEncoder(ensure_ascii=False, default=str).encode


class JsonFormatter(logging.Formatter):
    """One JSON object for each line, with the facts of Holdfast's own lines as members, and with those that
    the command adds to others (`holdfast_facts`): the job that they were written in.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": moment(record.created),
            "level": record.levelname,
            "logger": record.name,
        }
        facts = getattr(record, "holdfast", None)
        if isinstance(facts, dict):
            line |= facts  # its traceback among them
        else:
            line |= {"message": record.getMessage(), **getattr(record, "holdfast_facts", {})}
            if record.exc_info:
                line["exception"] = self.formatException(record.exc_info)
        # Inside of its strings, JSON reads these escapes back as what they stand for.
        return escaped(_object(line))


def _object(members: Mapping[str, object]) -> str:
    """As `json.dumps` writes it. Text and whole numbers, which most members are, take half of its time."""
    return (
        f"{{{', '.join([f'{encode_basestring(name)}: {_value(value)}' for name, value in members.items()])}}}"
    )


def _value(value: object) -> str:
    if type(value) is str:
        return encode_basestring(value)
    return str(value) if type(value) is int else _encoded(value)
