"""How a line of the log is written: a message with its facts, in which no text can pass for another line."""

import json
import logging
import re
from collections.abc import Mapping
from datetime import timedelta

from holdfast.domain.duration import compact
from holdfast.telemetry.error_line import Start
from holdfast.telemetry.record_maker import blank_record


def say(  # noqa: PLR0917  # by position, since a fact may have any name
    to: logging.Logger,
    level: int,
    message: str,
    traceback: str | None = None,
    more: str | None = None,
    error: BaseException | None = None,
    /,
    **facts: object,
) -> None:
    """A line with facts: as key=value in text, as members in JSON. A traceback comes below the text, each of
    its lines indented, so that none passes for a line of the log; in JSON it is a member. `more` is added to
    the message of the text alone. `error` is for other handlers of the program, such as Sentry's: no text is
    made of it.
    """
    if to.isEnabledFor(level):
        to.handle(fact_record(to, level, message, traceback, more, error, **facts))


def fact_record(  # noqa: PLR0917  # as say
    of: logging.Logger,
    level: int,
    message: str,
    traceback: str | None = None,
    more: str | None = None,
    error: BaseException | None = None,
    /,
    **facts: object,
) -> logging.LogRecord:
    """The record of such a line."""
    text = key_values(facts)
    record = blank_record(of, level, "%s: %s" if text else "%s%s", (message + (more or ""), text))
    told: dict[str, object] = {"event": message, **facts}
    vars(record)["holdfast"] = told
    if traceback is not None:
        told["traceback"] = traceback
        record.exc_text = indented(traceback)  # a formatter makes none of exc_info then
        if error is not None:
            record.exc_info = (type(error), error, error.__traceback__)
    return record


def key_values(facts: Mapping[str, object]) -> str:
    """For people: `attempt=1/20 took=12ms`. JSON has the numbers `attempt`, `max_attempts` and `took_ms`."""
    return " ".join(
        f"{name.removesuffix('_ms')}={fact_value(_shown(name, value, facts))}"
        for name, value in facts.items()
        if value is not None and name not in ("max_attempts", "waiting")
    )


def _shown(name: str, value: object, facts: Mapping[str, object]) -> object:
    if name == "attempt" and "max_attempts" in facts:
        return f"{value}/{facts['max_attempts']}"
    if name.endswith("_ms") and isinstance(value, int):
        return compact(timedelta(milliseconds=value))
    return value.shown if isinstance(value, Start) else value


# What ends a line, moves the cursor or turns the direction of writing, in a terminal or for a program that
# reads line by line: a handler's message must not pass for a line of the log.
_TREACHEROUS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str) -> str:
    """One line that shows what it holds and does nothing else."""
    if text.isascii() and text.isprintable():  # as most lines are: there is nothing to look for
        return text
    return _encodable(_TREACHEROUS.sub(lambda found: _NAMED.get(found[0]) or f"\\u{ord(found[0]):04x}", text))


def indented(text: str) -> str:
    return "\n".join(f"    {escaped(line)}" for line in text.rstrip("\n").split("\n"))


def fact_value(value: object) -> str:
    """A value as text has it: quoted where it would not end with the next space."""
    text = str(value)
    is_bare = text and not any(c in text for c in ' "=') and not _TREACHEROUS.search(text)
    return escaped(text if is_bare else json.dumps(text, ensure_ascii=False))


def _encodable(text: str) -> str:
    """Half of a surrogate pair, as an error's text may hold, would lose the whole line."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
