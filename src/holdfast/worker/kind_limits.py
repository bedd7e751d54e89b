"""The limits of one kind of job: what each of its jobs has to pass, by its arguments."""

from collections.abc import Iterable, Mapping, Sequence

from holdfast.codec.signature import Signature
from holdfast.domain.limit_keys import KindLimit, Use, read_args, stored_limit_key
from holdfast.domain.limit_use import LimitUse
from holdfast.domain.limits import MOST_LIMITS, Limit
from holdfast.errors import InvalidInput

Uses = Mapping[Limit | str, Use]


class KindLimits:
    """Made at decoration; what the signature says of their keys is asked for when it can be read."""

    __slots__ = ("_is_keyed", "_keyless", "_kind", "_read", "_signature", "declared")

    def __init__(self, declared: Iterable[Limit], kind: str, signature: Signature) -> None:
        self.declared: dict[str, Limit] = {str(each.name): each for each in declared}
        self._kind = kind
        self._signature = signature
        self._read: tuple[KindLimit, ...] | None = None
        self._is_keyed = any(each.names for each in self.declared.values())
        self._keyless = tuple(LimitUse(name) for name in sorted(self.declared))

    @property
    def stored(self) -> tuple[KindLimit, ...]:
        """As the database keeps them, for jobs that are enqueued without this code."""
        if self._read is None:
            self._read = tuple(
                self._signature.limited(name, self.declared[name].names) for name in sorted(self.declared)
            )
        return self._read

    def of(self, args: str, uses: Mapping[str, Use] | None = None) -> tuple[LimitUse, ...]:
        """What a job with these arguments has to pass."""
        stored = self._read or self.stored
        if not uses and not self._is_keyed:
            return self._keyless
        values = read_args(args)
        if _are_ordered(values, stored):
            values = read_args(self._signature.keyed(args))
        if not uses:
            return tuple([each.used_by(values, self._kind) for each in stored])
        found = []
        for each in stored:
            use = uses.get(each.name, Use())
            if use.key is None:
                found.append(each.used_by(values, self._kind)._replace(cost=use.cost))
            else:
                quotes = any(secret in use.key for secret in self._signature.secrets_in(args))
                is_secret = each.is_secret or quotes
                found.append(LimitUse(each.name, stored_limit_key(use.key, is_secret=is_secret), use.cost))
        return tuple(found)

    def read_uses(self, given: object) -> dict[str, Use]:
        """What `using(limit={…})` was given, by the names of limits."""
        if not isinstance(given, Mapping):
            raise InvalidInput(
                f"limit is {given!r}: give {{a limit: Use(key=…, cost=…)}} for limits of {self._kind}"
            )
        uses: dict[str, Use] = {}
        for limit, use in given.items():
            name = self._kind if isinstance(limit, Limit) and limit.name is None else _name(limit)
            if name not in self.declared:
                raise InvalidInput(self._unknown(name))
            if not isinstance(use, Use):
                raise InvalidInput(f'limit "{name}": {use!r} is no Use(key=…, cost=…)')
            if use.key is not None and not self.declared[name].names:
                raise InvalidInput(f'limit "{name}" has no keys: leave key={use.key!r} out')
            uses[name] = use
        return uses

    def _unknown(self, name: str) -> str:
        has = ", ".join(f'"{each}"' for each in sorted(self.declared))
        return f'{self._kind} has no limit "{name}": it has {has}; give it another with @app.job(limit=…)'


def _are_ordered(values: Mapping[str, object], limits: Iterable[KindLimit]) -> bool:
    """Whether a key is made of something whose order may be any, such as a set's."""
    for each in limits:
        for name in each.by:
            if isinstance(values.get(name), list | dict):
                return True
    return False


def _name(limit: object) -> str:
    if isinstance(limit, Limit):
        return str(limit.name)
    if isinstance(limit, str):
        return limit
    raise InvalidInput(f"limit names {limit!r}: give a limit of app.limit(…), or its name")


def read_limits(given: object) -> tuple[Limit, ...]:
    """What a decorator was given as `limit`: one, or a list of two."""
    if given is None:
        return ()
    several = (given,) if isinstance(given, Limit) else given
    if not isinstance(several, Sequence) or not all(isinstance(each, Limit) for each in several):
        raise InvalidInput(
            f"limit is {given!r}: give Limit(…), a limit of app.limit(…), or a list of two of them"
        )
    if len(several) > MOST_LIMITS:
        raise InvalidInput(
            f"limit is a list of {len(several)}: a job has {MOST_LIMITS} limits at most; let kinds share one "
            "with app.limit(…)"
        )
    return tuple(several)


def named_limits(given: Sequence[Limit], known: Mapping[str, Limit], kind: str) -> dict[str, Limit]:
    """The limits of a kind by their names. One without a name is called as the kind; `known` are the app's
    own, which a limit with a name must be one of.
    """
    found: dict[str, Limit] = {}
    for each in given:
        limit = each.called(kind) if each.name is None else each
        name = str(limit.name)
        if each.name is None and name in known:
            raise InvalidInput(
                f'the Limit of {kind} would be named after it, and app.limit("{name}") has that name: give '
                "one of them another name"
            )
        if each.name is not None and (name not in known or known[name].spec != limit.spec):
            raise InvalidInput(f'limit "{name}" is not one of this app: make it with app.limit("{name}", …)')
        if name in found:
            raise InvalidInput(f'{kind} is given limit "{name}" twice: give it once')
        if limit.spec.is_keyed and not limit.names:
            raise InvalidInput(_keyless(limit, kind, is_own=each.name is None))
        found[name] = limit
    return found


def _keyless(limit: Limit, kind: str, *, is_own: bool) -> str:
    wanted = 'key="account_id"' if is_own else 'limit=….by("account_id")'
    return (
        f"{limit} counts for each key, and {kind} does not say what the key is: name its parameters, such as "
        f"{wanted}"
    )
