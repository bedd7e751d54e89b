"""Log records as lines for a person who develops: short, with a mark and a colour for each ending."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from holdfast.domain.duration import compact
from holdfast.telemetry.error_line import Start
from holdfast.telemetry.log_lines import escaped, indented, key_values

_GREEN, _YELLOW, _RED, _BLUE, _DIM = "32", "33", "31", "34", "2"
_ATTEMPT = "attempt "
# A mark and a word, never a colour alone.
_ENDINGS = {
    "started": ("▸", _BLUE),
    "succeeded": ("✓", _GREEN),
    "failed": ("✕", _RED),
    "retried": ("↻", _YELLOW),
    "snoozed": ("◷", _BLUE),
    "released": ("↩", _BLUE),
    "cancelled": ("⊘", _DIM),
    "expired": ("✕", _RED),
    "moved": ("→", _BLUE),
}
_LEVELS = {logging.WARNING: ("!", _YELLOW), logging.ERROR: ("✕", _RED), logging.CRITICAL: ("✕", _RED)}
_OWN = "holdfast"


class DevFormatter(logging.Formatter):
    """`09:00:00 ✓ send_receipt #7 succeeded in 12ms`."""

    def __init__(self, *, is_coloured: bool) -> None:
        super().__init__()
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "holdfast", None)
        if isinstance(facts, dict) and "kind" in facts and facts["event"].startswith(_ATTEMPT):
            line = self._attempt(facts)
        elif isinstance(facts, dict):
            line = self._event(record.levelno, facts)
        else:
            line = self._message(record)
        time = self._in(_DIM, f"{datetime.fromtimestamp(record.created).astimezone():%H:%M:%S}")
        error = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        stack = self.formatStack(record.stack_info) if record.stack_info else None
        return "\n".join(part for part in (f"{time} {line}", error, stack) if part)

    def _attempt(self, facts: Mapping[str, Any]) -> str:
        ending = str(facts["event"]).removeprefix(_ATTEMPT)
        mark, colour = _ENDINGS.get(ending.split()[0], ("·", _DIM))
        step = f", step {facts['step']}" if facts.get("step") is not None else ""
        head = f"{mark} {facts['kind']} #{facts['job']}{step} {ending}"
        if facts.get("waiting"):
            head += f", waiting {facts['waiting']}"
        return (
            f"{self._in(colour, escaped(head))}{self._in(_DIM, escaped(_rest(facts)))}{self._problem(facts)}"
        )

    def _problem(self, facts: Mapping[str, Any]) -> str:
        error = facts.get("error")
        if error is None:
            return ""
        return f": {escaped(str(error.shown if isinstance(error, Start) else error))}"

    def _event(self, level: int, facts: Mapping[str, Any]) -> str:
        rest = key_values(
            {name: value for name, value in facts.items() if name not in ("event", "traceback")}
        )
        return f"{self._marked(level, str(facts['event']))}{self._in(_DIM, f' {rest}' if rest else '')}"

    def _message(self, record: logging.LogRecord) -> str:
        name = "" if record.name.partition(".")[0] == _OWN else f"{record.name}: "
        of: Mapping[str, object] = getattr(record, "holdfast_facts", {})
        job = f" #{of['job']}" if "job" in of else ""
        return f"{self._marked(record.levelno, f'{name}{record.getMessage()}')}{self._in(_DIM, escaped(job))}"

    def _marked(self, level: int, text: str) -> str:
        mark, colour = _LEVELS.get(level, ("·", None))
        return self._in(colour, f"{mark} {escaped(text)}")

    def _in(self, colour: str | None, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_coloured and colour and text else text

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging's
        return indented(super().formatException(ei))


def _rest(facts: Mapping[str, Any]) -> str:
    """How long it took; if something went wrong also which attempt it was, and what follows."""
    took = f" in {_length(facts['took_ms'])}" if "took_ms" in facts else ""
    parts: list[str] = []
    if "error" in facts:
        parts.append(f"attempt {facts['attempt']}/{facts['max_attempts']}")
    if "delay_ms" in facts and "waiting" not in facts:
        parts.append(f"again in {_length(facts['delay_ms'])}")
    if "next_step" in facts:
        parts.append(f"next step {facts['next_step']}")
    if "flag" in facts:
        parts.append(str(facts["flag"]))
    return f"{took} ({', '.join(parts)})" if parts else took


def _length(milliseconds: int) -> str:
    return compact(timedelta(milliseconds=milliseconds))
