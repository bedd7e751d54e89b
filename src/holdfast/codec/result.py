"""Results as JSON, bounded: what cannot be stored is dropped and flagged, and the run stays a success."""

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.codec.json_hooks import to_json_types
from holdfast.domain.json_text import holds_nul, is_surely_longer
from holdfast.domain.result import Flag, bounded

encoder = msgspec.json.Encoder(enc_hook=to_json_types)


class NotBrought:
    """In place of a result that stayed in a child process, with the flag that says why. No dataclass: those
    can be encoded.
    """

    def __init__(self, flag: Flag) -> None:
        self.flag = flag


@dataclass(frozen=True, slots=True)
class Encoded:
    """JSON text; or none, with a flag that says why, or without one when there was nothing to store."""

    text: str | None = None
    flag: str | None = None


def stored(value: Any, decoder: msgspec.json.Decoder[Any] | None, *, limit: int) -> Encoded:
    """Total: answers for any value. `decoder` of the type that the value should have, when it is known."""
    if value is None:
        return Encoded()
    try:
        if is_surely_longer(value, limit) or len(encoded := encoder.encode(value)) > limit:
            return Encoded(flag="result_too_large")
        text = encoded.decode()
        if loses_number(value, text):
            return Encoded(flag="result_unencodable")
        if _is_sound(text, decoder):
            return Encoded(text)
        success = bounded(text, limit=limit)
        return Encoded(success.result, success.flag)
    except Exception:  # noqa: BLE001  # a job that is done stays done, whatever the code of its result does
        return Encoded(flag=value.flag if isinstance(value, NotBrought) else "result_unencodable")


def loses_number(value: Any, text: str) -> bool:
    """NaN and infinity are written as null: the value is looked through only where there is one."""
    return "null" in text and not _is_finite(msgspec.to_builtins(value, enc_hook=to_json_types))


def _is_sound(text: str, decoder: msgspec.json.Decoder[Any] | None) -> bool:
    """Read by its own type, it is JSON: a tenth of the cost of the close look that all else gets."""
    if decoder is None or ("\\u0000" in text and holds_nul(text)):
        return False
    try:
        decoder.decode(text)
    except Exception:  # noqa: BLE001  # as above
        return False
    return True


def _is_finite(value: Any) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_is_finite, value)) and all(map(_is_finite, value.values()))
        case list() | tuple():
            return all(map(_is_finite, value))
        case _:
            return True
