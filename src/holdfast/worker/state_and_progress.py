"""`ctx.state` and `ctx.progress` as JSON text: what fits into the database, and errors for what does not."""

import json
import math
from collections.abc import Mapping
from typing import Any

from holdfast.domain.failure import storable
from holdfast.domain.json_text import flaw, is_surely_longer
from holdfast.errors import InvalidInput

STATE_LIMIT = 1024 * 1024  # bytes, as for arguments
PROGRESS_LIMIT = 16 * 1024  # bytes, as for results
_ELSEWHERE = " (store the bulk elsewhere, and a reference here)"


def read_state(text: str | None) -> dict[str, Any]:
    """What an earlier run has kept. A row that was damaged by hand may hold any JSON."""
    stored = json.loads(text) if text else {}
    return stored if isinstance(stored, dict) else {}


def state_text(state: dict[str, Any] | None) -> str | None:
    """None if the handler has not touched its state. ValueError or TypeError if it cannot be stored."""
    if state is None:
        return None
    if is_surely_longer(state, STATE_LIMIT):
        raise InvalidInput(f"it takes more than {STATE_LIMIT:,} bytes, the limit{_ELSEWHERE}")
    text = json.dumps(state, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if problem := flaw(text):
        raise ValueError(problem)
    size = len(text.encode())
    if size > STATE_LIMIT:
        raise InvalidInput(f"it takes {size:,} bytes, the limit is {STATE_LIMIT:,}{_ELSEWHERE}")
    return text


def unstorable_state(problem: Exception) -> InvalidInput:
    """For a handler that returned, but whose state cannot be stored."""
    error = InvalidInput(f"ctx.state cannot be kept: {problem}: give it what JSON can hold")
    error.__cause__ = problem
    return error


def progress_text(said: Mapping[str, object]) -> str:
    value = said["value"]
    if value is not None and not _is_measure(value):
        raise InvalidInput(f"progress is {value!r}: give a number from 0 up, such as a fraction or a count")
    given = {name: each for name, each in said.items() if each is not None}
    if is_surely_longer(given, PROGRESS_LIMIT):
        raise InvalidInput(f"progress takes more than {PROGRESS_LIMIT:,} bytes, the limit: say less")
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"progress cannot be written as JSON: {error}: give what JSON can hold") from error
    kept = storable(text).replace("\\u0000", "\\ufffd")
    size = len(kept.encode())
    if size > PROGRESS_LIMIT:
        raise InvalidInput(f"progress takes {size:,} bytes, the limit is {PROGRESS_LIMIT:,}: say less")
    return kept


def _is_measure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
