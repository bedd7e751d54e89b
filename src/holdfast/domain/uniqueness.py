"""The key that makes a job unique: given, or derived from its kind and chosen arguments; and what an enqueue
does if another job has it.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from holdfast.domain.duration import compact
from holdfast.domain.job import check_length
from holdfast.errors import InvalidInput

Unique = str | Sequence[str] | bool
OnConflict = Literal["existing", "raise", "replace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniqueness:
    """What makes a job unique, and one of three ways with a key that is taken: `on_conflict`, `debounce` with
    its `max_wait`, or `unique_for`, which also takes an `on_conflict`. None where nothing was said.
    """

    unique: Unique | None = None
    on_conflict: OnConflict | None = None
    debounce: timedelta | None = None
    max_wait: timedelta | None = None
    unique_for: timedelta | None = None

    @property
    def is_keyed(self) -> bool:
        return self.unique is not None and self.unique is not False

    def over(self, own: "Uniqueness") -> "Uniqueness":
        """What one enqueue asks for, over what its kind declares, checked. A way that it names takes the
        place of the kind's; without a key there is none.
        """
        kept = own if self.unique is None else replace(own, unique=self.unique)
        if self.unique is False:
            merged = self
        elif self.debounce is not None or self.max_wait is not None:
            merged = replace(
                self,
                unique=kept.unique,
                debounce=own.debounce if self.debounce is None else self.debounce,
                max_wait=own.max_wait if self.max_wait is None else self.max_wait,
            )
        elif self.on_conflict is not None or self.unique_for is not None:
            merged = replace(
                self,
                unique=kept.unique,
                on_conflict=own.on_conflict if self.on_conflict is None else self.on_conflict,
                unique_for=own.unique_for if self.unique_for is None else self.unique_for,
            )
        else:
            merged = kept
        merged.check()
        return merged

    def check(self) -> None:
        """Refuse what cannot be meant together."""
        if self.on_conflict not in (None, "existing", "raise", "replace"):
            raise InvalidInput(f'on_conflict is {self.on_conflict!r}: give "existing", "raise" or "replace"')
        for name in ("debounce", "max_wait", "unique_for"):
            length: timedelta | None = getattr(self, name)
            if length is not None and length <= timedelta():
                raise InvalidInput(f"{name} is {compact(length)}: it must be above 0")
            check_length(name, length)
        self._check_key()
        self._check_way()

    def _check_key(self) -> None:
        if self.is_keyed:
            return
        if self.on_conflict not in (None, "existing"):
            raise InvalidInput(
                f'on_conflict is "{self.on_conflict}": it needs unique=…, as only jobs with a key conflict'
            )
        for name in ("debounce", "unique_for"):
            if getattr(self, name) is not None:
                raise InvalidInput(f"{name} needs unique=…, which says which jobs are the same")

    def _check_way(self) -> None:
        if self.max_wait is not None and self.debounce is None:
            raise InvalidInput("max_wait needs debounce=…: it bounds for how long that can put a job off")
        if self.debounce is not None and self.max_wait is not None and self.max_wait < self.debounce:
            raise InvalidInput(
                f"max_wait is {compact(self.max_wait)}, less than debounce, {compact(self.debounce)}: the "
                "first enqueue already puts the job off for longer"
            )
        if self.debounce is not None and self.unique_for is not None:
            raise InvalidInput(
                "give debounce, with which the last of many enqueues runs, or unique_for, with which the "
                "first does, not both"
            )
        if self.debounce is not None and self.on_conflict is not None:
            raise InvalidInput(
                f'on_conflict is "{self.on_conflict}": leave it out, debounce says what happens when the key '
                "is taken"
            )
        if self.unique_for is not None and self.on_conflict == "replace":
            raise InvalidInput(
                'on_conflict is "replace", and unique_for keeps what came first: leave one of them out, or '
                "give debounce=… to run the last"
            )


NOT_UNIQUE = Uniqueness()


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


def stored_key(key: str, *, kind: str, secrets: Sequence[str]) -> str:
    """A key that quotes a secret is hashed: people read keys, and the table keeps them."""
    if not any(secret in key for secret in secrets):
        return key
    return f"{kind}:{hashlib.sha256(key.encode()).hexdigest()}"


def check_names(unique: object, *, kind: str, parameters: Collection[str]) -> None:
    """If it names parameters, before there are arguments."""
    if not isinstance(unique, str | bool | None):
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
