"""A result, bounded and fit to be stored. One that cannot be stored is dropped and flagged, and the run stays
a success: a payment is not made again for its receipt.
"""

from typing import Literal

from holdfast.domain.json_text import flaw
from holdfast.domain.outcome import Succeeded

Flag = Literal["result_too_large", "result_unencodable"]

RESULT_LIMIT = 16 * 1024


def bounded(text: str, *, limit: int = RESULT_LIMIT) -> Succeeded:
    """A success with a result that is JSON text already. The limit is in bytes."""
    if len(text) > limit or len(text.encode(errors="replace")) > limit:
        return without_result("result_too_large")
    if flaw(text) is not None:
        return without_result("result_unencodable")
    return Succeeded(text)


def without_result(flag: Flag) -> Succeeded:
    return Succeeded(None, flag)
