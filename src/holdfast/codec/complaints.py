"""Errors of msgspec in Holdfast's words: the place without its `$`, the problem as part of a sentence."""

import re
from typing import NamedTuple

from holdfast.errors import InvalidInput

_PLACED = re.compile(r"(?P<problem>.*) - at (?P<key>`key` in )?`\$\.?(?P<path>.*)`", re.DOTALL)
_QUOTED = 1_000


class Complaint(NamedTuple):
    """What is wrong, and where: `order.items[2].price`, or nowhere in particular."""

    path: str
    problem: str

    @property
    def shows_the_value(self) -> bool:
        """Whether it repeats the value itself, or is about something inside of it."""
        return not re.match(r"expected|invalid (?!enum|value)", self.problem)

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


def complaint(error: Exception) -> Complaint:
    message = unwritable(error) if isinstance(error, RecursionError) else str(error) or type(error).__name__
    placed = _PLACED.fullmatch(message)
    problem = (placed["problem"] if placed else message).replace("`", "")
    problem = problem[:1].lower() + problem[1:]
    if placed is None:
        return Complaint("", problem)
    return Complaint(placed["path"], f"in a key, {problem}" if placed["key"] else problem)


def told(found: Complaint) -> str:
    """The complaint, where a missing or a superfluous field of the whole is a parameter."""
    if not found.path:
        if match := re.fullmatch(r"object missing required field (\w+)", found.problem):
            return f"{match[1]} is missing, and has no default"
        if match := re.fullmatch(r"object contains unknown field (.+)", found.problem, re.DOTALL):
            return f"there is no parameter {match[1]}"
    return str(found)


def unwritable(error: Exception) -> str:
    """Why something cannot be written: the rest of a sentence that begins with it."""
    match error:
        case InvalidInput():
            return re.sub(r"^args (\w+)", r"\1s", str(error))
        case UnicodeEncodeError():
            return "holds half of a surrogate pair, which is not valid text: decode it properly first"
        case RecursionError():
            return "is nested too deeply, or holds itself"
        case _:
            return f"cannot be written as JSON: {str(error) or type(error).__name__}"


def quoted(text: str) -> str:
    """Stored text as an error repeats it: whole, unless it is very long."""
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}… ({len(text):,} characters)"
