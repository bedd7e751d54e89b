"""The whole life of a result: encoded, bounded, and if it cannot be stored dropped and flagged. The run stays
a success all the same: a payment is not made again for its receipt.

1. The handler returns. `outcome_of_result` of `worker/attempt_outcome.py` calls `Signature.encode_result`,
   which calls `success` below. For a handler that completes in its own transaction `worker/context.py` does.
2. `success` encodes it and drops it for two reasons: `result_too_large` (`RESULT_LIMIT`) and
   `result_unencodable`. A child process that cannot send its result sends the reason: `NotBrought`.
3. The text or the flag is the outcome of the attempt, and nothing encodes or reads it again: `decide` puts it
   into `CompleteJob`, and the settle statement into `ledger.result` and `ledger.flag`.
4. `Handle.result` decodes the text, to the handler's return type where that is known. A result that was
   dropped is None there, and `JobStatus.flag` says why.
"""

import math
from typing import Any, Final, Literal

import msgspec

from holdfast.codec.json_hooks import to_json_types
from holdfast.domain.json_text import flaw, holds_nul, is_surely_longer
from holdfast.domain.outcome import Succeeded

encoder = msgspec.json.Encoder(enc_hook=to_json_types)

Flag = Literal["result_too_large", "result_unencodable"]

RESULT_LIMIT: Final = 16 * 1024
"""In bytes."""


class NotBrought:
    """Stands in for a result that stayed in a child process; the flag says why. Not a dataclass, which could
    be encoded.
    """

    def __init__(self, flag: Flag) -> None:
        self.flag = flag


NOTHING_RETURNED = Succeeded()
"""How most runs end. Always this object."""


def success(value: Any, decoder: msgspec.json.Decoder[Any] | None, *, limit: int) -> Succeeded:
    """The success of a handler that returned `value`. Never raises. `decoder` is that of the handler's return
    type, when it is known.
    """
    if value is None:
        return NOTHING_RETURNED
    try:
        if is_surely_longer(value, limit) or len(encoded := encoder.encode(value)) > limit:
            return without_result("result_too_large")
        text = encoded.decode()
        if loses_number(value, text):
            return without_result("result_unencodable")
        if _is_sound(text, decoder):
            return Succeeded(text)
        return bounded(text, limit=limit)
    except Exception:  # noqa: BLE001  # a job that is done stays done, whatever the code of its result does
        return without_result(value.flag if isinstance(value, NotBrought) else "result_unencodable")


def bounded(text: str, *, limit: int = RESULT_LIMIT) -> Succeeded:
    """A success with a result that is JSON text already."""
    if len(text) > limit or len(text.encode(errors="replace")) > limit:
        return without_result("result_too_large")
    if flaw(text) is not None:
        return without_result("result_unencodable")
    return Succeeded(text)


def without_result(flag: Flag) -> Succeeded:
    return Succeeded(None, flag)


def loses_number(value: Any, text: str) -> bool:
    """NaN and infinity are written as null, so only a text with a null in it needs a search."""
    return "null" in text and not _is_finite(msgspec.to_builtins(value, enc_hook=to_json_types))


def _is_sound(text: str, decoder: msgspec.json.Decoder[Any] | None) -> bool:
    """Text that the decoder of its own type reads is JSON: a tenth of the cost of `bounded`."""
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
