"""How Holdfast's connections behave: what can be chosen, what each choice takes, and the defaults.

The names are those of the connection string, so that an option is called the same wherever it is given.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from holdfast.domain.duration import Length, compact, duration
from holdfast.errors import InvalidInput

_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _CountOption:
    least: int

    @property
    def takes(self) -> str:
        return f"a whole number, {self.least} or more"

    def read(self, value: object) -> int:
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < self.least:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class _LengthOption:
    zero: str = ""
    most: timedelta = timedelta(days=365)

    @property
    def takes(self) -> str:
        zero = f', or "0" for {self.zero}' if self.zero else ""
        return f'a length of time such as "30s" or "5m", at most {compact(self.most)}{zero}'

    def read(self, value: object) -> timedelta:
        length = timedelta() if value in ("0", 0) and value is not False else duration(value)
        if not timedelta() <= length <= self.most or (not length and not self.zero):
            raise ValueError
        return length


# Postgres keeps its timeouts as 32 bits of milliseconds.
_SERVER_LIMIT = timedelta(days=24)

KINDS: Mapping[str, _CountOption | _LengthOption] = MappingProxyType(
    {
        "pool_max_conns": _CountOption(1),
        "pool_min_conns": _CountOption(0),
        "pool_max_conn_lifetime": _LengthOption(),
        "pool_max_conn_lifetime_jitter": _LengthOption(zero="none"),
        "pool_max_conn_idle_time": _LengthOption(),
        "pool_health_check_period": _LengthOption(),
        "pool_timeout": _LengthOption(),
        "idle_in_transaction_timeout": _LengthOption(zero="unlimited", most=_SERVER_LIMIT),
        "reply_timeout": _LengthOption(zero="unlimited"),
        "question_timeout": _LengthOption(zero="unlimited", most=_SERVER_LIMIT),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """What the user chose; `None` where nothing was chosen. Lengths are written "5m" or as a timedelta."""

    pool_max_conns: int | None = None
    pool_min_conns: int | None = None
    pool_max_conn_lifetime: Length | None = None
    pool_max_conn_lifetime_jitter: Length | None = None
    pool_max_conn_idle_time: Length | None = None
    pool_health_check_period: Length | None = None
    pool_timeout: Length | None = None
    idle_in_transaction_timeout: Length | None = None
    reply_timeout: Length | None = None
    question_timeout: Length | None = None
    synchronous_commit: bool | None = None

    def __post_init__(self) -> None:
        for name in KINDS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, read_option(name, value))


def read_option(name: str, value: object) -> int | timedelta:
    """The value of an option. A wrong one is not repeated in the error: it came from beside a password."""
    try:
        return KINDS[name].read(value)
    except ValueError:  # InvalidInput is one
        raise InvalidInput(f"{name} takes {KINDS[name].takes}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """Every option with its value."""

    pool_max_conns: int = 10
    pool_min_conns: int = 1
    pool_max_conn_lifetime: timedelta = timedelta(hours=1)
    pool_max_conn_lifetime_jitter: timedelta = timedelta(minutes=5)
    pool_max_conn_idle_time: timedelta = timedelta(minutes=10)
    pool_health_check_period: timedelta = timedelta(seconds=30)
    pool_timeout: timedelta = timedelta(seconds=30)
    idle_in_transaction_timeout: timedelta = timedelta(seconds=30)
    reply_timeout: timedelta = timedelta(minutes=1)
    question_timeout: timedelta = timedelta(seconds=5)
    synchronous_commit: bool = True

    def __post_init__(self) -> None:
        if self.pool_min_conns > self.pool_max_conns:
            raise InvalidInput(
                f"pool_min_conns is {self.pool_min_conns}, more than pool_max_conns, "
                f"which is {self.pool_max_conns}"
            )

    @classmethod
    def choose(cls, *layers: PoolOptions) -> "PoolSettings":
        """The first layer that chose wins; what none chose is the default."""
        chosen: dict[str, Any] = {}
        for layer in reversed(layers):
            given = {field.name: getattr(layer, field.name) for field in fields(layer)}
            chosen |= {name: value for name, value in given.items() if value is not None}
        return cls(**chosen)
