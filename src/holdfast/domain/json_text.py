"""Whether Postgres will store a text as JSON: asked before it is sent, since a statement that carries a batch
fails as a whole for one text that it cannot store.
"""

import json
import re
from collections.abc import Iterable
from decimal import Decimal

# An escaped NUL: \u0000 behind an even number of backslashes.
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
# Within what a numeric holds: 131,072 digits before the point, 16,383 after it.
_SMALLEST, _LARGEST = -16_000, 131_000


def flaw(text: str) -> str | None:
    """What keeps this text from being stored as JSON, or None. Total: has an answer for any text."""
    try:
        text.encode()
        found = json.loads(text, parse_constant=_refuse, parse_float=_number)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair is not valid text: decode it properly first"
    except (ValueError, RecursionError, ArithmeticError) as error:
        return f"it cannot be read as JSON ({error})"
    return "Postgres cannot store a NUL character: remove or encode it" if holds_nul(text) else None


def holds_nul(text: str) -> bool:
    """Whether JSON text holds a NUL, which JSON can write and Postgres cannot keep."""
    # The plain search is a hundred times quicker, and hardly ever finds anything.
    return "\\u0000" in text and _ESCAPED_NUL.search(text) is not None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _number(text: str) -> Decimal:
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < _SMALLEST or number.adjusted() > _LARGEST:
        raise ValueError("a number is out of range")
    return number


def is_surely_longer(value: object, limit: int, *, depth: int = 3) -> bool:
    """Whether the JSON of a value surely takes more than this many bytes, so that half a gigabyte is not
    encoded only to be dropped. Looks only at plain built-in values, and only a few levels deep.
    """
    kind = type(value)
    if kind is str or kind is bytes or kind is bytearray:
        return len(value) > limit  # type: ignore[arg-type]  # these have a length
    if kind is list or kind is tuple:
        parts: Iterable[object] = value  # type: ignore[assignment]  # both are iterable
    elif kind is dict:
        parts = value.values()  # type: ignore[attr-defined]  # it is one
    else:
        return False
    # Each part takes at least one character and a comma; the last one has no comma.
    return 2 * len(value) - 1 > limit or (  # type: ignore[arg-type]  # as above
        depth > 0 and any(is_surely_longer(part, limit, depth=depth - 1) for part in parts)
    )
