"""Which key a job has in each of its limits: given, or made of its arguments. Computed when the job is
enqueued and stored with it. The SQL function `limits_of` computes the same.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.domain.job import KEY_LIMIT, has_unseen
from holdfast.domain.limit_use import LimitUse
from holdfast.domain.limits import check_number
from holdfast.errors import InvalidInput

_SURELY_SHORT = KEY_LIMIT // 4
"""Characters, of at most four bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How one job uses a limit: `job.using(limit={stripe: Use(key="acme", cost=350)})`. key: in place of the
    one that its arguments give. cost: how many starts of the limit's rate it counts as.
    """

    key: str | None = None
    cost: int = 1

    def __post_init__(self) -> None:
        key: object = self.key
        if key is not None and (not isinstance(key, str) or not key):
            raise InvalidInput(f"the key of a limit is {key!r}: give text")
        check_number("cost", self.cost)


@dataclass(frozen=True, slots=True)
class KindLimit:
    """How jobs of one kind use a limit. `by`: the parameters that are the key. `defaults`: their values where
    they were not given. `within`: the argument that holds them, where they are not arguments themselves.
    `is_secret`: one of them is, so that the key is stored as a hash.
    """

    name: str
    by: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    within: str | None = None
    is_secret: bool = False

    def used_by(self, args: Mapping[str, Any], kind: str) -> LimitUse:
        """`args`: as `read_args` reads them."""
        if not self.by:
            return LimitUse(self.name)
        given = args
        if self.within is not None:
            inner = args.get(self.within)
            given = inner if isinstance(inner, dict) else {}
        values = [given[name] if name in given else self.defaults.get(name) for name in self.by]
        if None in values or "" in values:
            raise InvalidInput(self._missing(values, kind))
        return LimitUse(self.name, stored_limit_key(key_text(values), is_secret=self.is_secret))

    def _missing(self, values: Sequence[Any], kind: str) -> str:
        pairs = zip(self.by, values, strict=True)
        name, value = next((name, value) for name, value in pairs if value is None or value == "")
        found = "nothing was given for it" if value is None else "it is empty"
        return (
            f'{kind} counts against limit "{self.name}" by its {name}, and {found}: give a value, or the key '
            f'itself with using(limit={{"{self.name}": Use(key=…)}})'
        )


# Numbers exactly as they are written: a float would round them, and Postgres does not.
_read_limits = msgspec.json.Decoder(list[dict[str, Any]], float_hook=Decimal).decode
read_args = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


def key_text(values: Sequence[Any]) -> str:
    """The value of one parameter, text as it is; several as a JSON array."""
    if len(values) == 1:
        return values[0] if isinstance(values[0], str) else jsonb_text(values[0])
    return jsonb_text(values)


def stored_limit_key(key: str, *, is_secret: bool = False) -> str:
    """Hashed if it is secret, too long for an index, or cannot be printed: people read keys, and the table
    keeps them. Without the kind's name: kinds share limits.
    """
    if not is_secret and len(key) <= _SURELY_SHORT and key.isascii() and key.isprintable():
        return key  # nearly all are, and this costs a fifth
    is_fit = len(key) <= _SURELY_SHORT or len(key.encode()) <= KEY_LIMIT
    if is_fit and not is_secret and not has_unseen(key):
        return key
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def jsonb_text(value: Any) -> str:
    """JSON as Postgres writes it from a `jsonb`: members by the length of their names, numbers in full."""
    match value:
        case str() | int() | None:
            return json.dumps(value, ensure_ascii=False)
        case Decimal() | float():
            return _number(value if isinstance(value, Decimal) else Decimal(repr(value)))
        case Mapping():
            ordered = sorted(value.items(), key=lambda member: (len(member[0].encode()), member[0].encode()))
            return "{" + ", ".join(f"{jsonb_text(name)}: {jsonb_text(each)}" for name, each in ordered) + "}"
        case _:
            return "[" + ", ".join(map(jsonb_text, value)) + "]"


def _number(number: Decimal) -> str:
    return format(abs(number) if number.is_zero() else number, "f")


def to_json(limits: Sequence[KindLimit]) -> str | None:
    """As the database keeps what code declares of a kind's limits; None if it has none. A default that is
    secret is not stored: who enqueues without the code has to give the value.
    """
    written = [
        {"limit": each.name, "by": list(each.by)}
        | ({"defaults": dict(each.defaults)} if each.defaults and not each.is_secret else {})
        | ({"within": each.within} if each.within is not None else {})
        | ({"is_secret": True} if each.is_secret else {})
        for each in sorted(limits, key=lambda each: each.name)
    ]
    return json.dumps(written, ensure_ascii=False) if written else None


def from_json(text: str | None) -> tuple[KindLimit, ...]:
    stored = [] if text is None else _read_limits(text)
    return tuple(
        KindLimit(
            each["limit"],
            tuple(each.get("by", ())),
            each.get("defaults", {}),
            each.get("within"),
            bool(each.get("is_secret")),
        )
        for each in stored
    )


def uses_of(limits: Sequence[KindLimit], args: str, kind: str) -> tuple[LimitUse, ...]:
    """Of a job with these arguments, in the order of the limits' names."""
    if not limits:
        return ()
    values = read_args(args)
    return tuple(sorted(each.used_by(values, kind) for each in limits))
