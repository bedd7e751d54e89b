"""What may have been meant by a name that nothing has."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, others: Iterable[str]) -> str:
    """The end of a sentence that suggests the most similar of the other names; empty if none is similar."""
    found = get_close_matches(name, sorted(others), n=1)
    return f'; did you mean "{found[0]}"?' if found else ""
