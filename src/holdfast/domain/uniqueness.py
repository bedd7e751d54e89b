"""The key that makes a job unique: given, or derived from its kind and chosen arguments."""

import hashlib
import json
from collections.abc import Sequence

from holdfast.errors import InvalidInput

Unique = str | Sequence[str] | bool


def unique_key(unique: Unique | None, *, kind: str, args: str) -> str | None:
    """A text is the key itself; names of arguments derive it from their values; True from all of them."""
    match unique:
        case None | False:
            return None
        case str():
            return unique
        case True:
            return _derived(kind, json.loads(args))
    given = json.loads(args)
    names = list(unique)
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidInput("unique takes a key, names of arguments, or True for all of them")
    return _derived(kind, {name: given.get(name) for name in names})


def _derived(kind: str, values: dict[str, object]) -> str:
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{kind}:{hashlib.sha256(canonical.encode()).hexdigest()}"
