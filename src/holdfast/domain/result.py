"""What a handler returned, bounded and fit to be stored. A result that cannot be is dropped and flagged, and
the run stays a success: a payment is not made again for its receipt.
"""

import json
from typing import Literal

from holdfast.domain.json_text import flaw
from holdfast.domain.outcome import Succeeded

Flag = Literal["result_too_large", "result_unencodable"]

RESULT_LIMIT = 16 * 1024

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encoded(value: object, *, limit: int = RESULT_LIMIT) -> Succeeded:
    """A success with this value. Encoding stops at the limit, however large the value is."""
    parts: list[str] = []
    size = 0
    try:
        for part in _ENCODER.iterencode(value):
            parts.append(part)
            size += len(part)
            if size > limit:
                return _without("result_too_large")
    except (TypeError, ValueError, RecursionError, OverflowError):
        return _without("result_unencodable")
    return bounded("".join(parts), limit=limit)


def bounded(text: str, *, limit: int = RESULT_LIMIT) -> Succeeded:
    """A success with a result that is JSON text already; the limit is in bytes."""
    if len(text) > limit or len(text.encode(errors="replace")) > limit:
        return _without("result_too_large")
    if flaw(text) is not None:
        return _without("result_unencodable")
    return Succeeded(text)


def _without(flag: Flag) -> Succeeded:
    return Succeeded(None, flag)
