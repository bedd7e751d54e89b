"""msgspec's complaints in our words: the place without its `$`, the problem as a part of a sentence."""

import re
from typing import NamedTuple

_PLACED = re.compile(r"(?P<problem>.*) - at `(?P<key>key in )?\$\.?(?P<path>.*)`", re.DOTALL)
_QUOTED = 1_000


class Complaint(NamedTuple):
    """What is wrong, and where: `order.items[2].price`, or nowhere in particular."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


def complaint(error: Exception) -> Complaint:
    message = str(error) or type(error).__name__
    placed = _PLACED.fullmatch(message)
    problem = (placed["problem"] if placed else message).replace("`", "")
    if placed and placed["key"]:
        problem = f"in a key, {problem}"
    return Complaint(placed["path"] if placed else "", problem[:1].lower() + problem[1:])


def told(found: Complaint) -> str:
    """The complaint, where a missing or a superfluous field of the whole is a parameter."""
    if not found.path:
        if match := re.fullmatch(r"object missing required field (\w+)", found.problem):
            return f"{match[1]} is missing, and has no default"
        if match := re.fullmatch(r"object contains unknown field (.+)", found.problem, re.DOTALL):
            return f"there is no parameter {match[1]}"
    return str(found)


def quoted(text: str) -> str:
    """Stored text as an error repeats it: whole, unless it is very long."""
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}… ({len(text):,} characters)"
