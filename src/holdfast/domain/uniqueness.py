"""The key that makes a job unique: given, or derived from its kind and chosen arguments."""

import hashlib
import json
from collections.abc import Collection, Sequence

from holdfast.errors import InvalidInput

Unique = str | Sequence[str] | bool


def unique_key(unique: Unique | None, *, kind: str, args: str, parameters: Collection[str]) -> str | None:
    """A text is the key itself; names of parameters derive it from their values; True from all of them.

    `args` are those that count: with the defaults of what was not given. What is in none of them is absent,
    which differs from every value.
    """
    match unique:
        case None | False:
            return None
        case str():
            return unique
        case True:
            return _derived(kind, json.loads(args))
    names = _names(unique, kind, parameters)
    given = json.loads(args)
    return _derived(kind, {name: given[name] for name in names if name in given})


def check_unique(unique: object, *, kind: str, parameters: Collection[str]) -> None:
    """Names of parameters, before there are arguments."""
    _names(unique, kind, parameters)


def _names(unique: object, kind: str, parameters: Collection[str]) -> list[str]:
    names = list(unique) if isinstance(unique, Sequence) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidInput(
            f"unique is {unique!r}: give a key, a list of names of parameters, or True for all of them"
        )
    for name in names:
        if name not in parameters:
            takes = ", ".join(sorted(parameters)) or "nothing"
            raise InvalidInput(f"unique names {name!r}, which is not a parameter of {kind}: it takes {takes}")
    return names


def _derived(kind: str, values: dict[str, object]) -> str:
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{kind}:{hashlib.sha256(canonical.encode()).hexdigest()}"
