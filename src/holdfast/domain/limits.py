"""Limits as people declare them: how many jobs of a limit run at once, how often they start, in whose turn;
and the rule that counts, made of what code declares and what an operator has set.
"""

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, Literal

from holdfast.domain.duration import Length, duration
from holdfast.domain.job import check_length, check_name, is_whole
from holdfast.domain.retry import Matcher, check_matcher, matches
from holdfast.errors import InvalidInput

Hold = Literal["run", "job"]

MOST_LIMITS = 2
"""Of one job: it passes them one after the other."""
MOST = 1_000_000_000
MOST_STRICT = 1_000
"""Starts in a window: each of them is remembered for as long as the window."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`Rate(90, per="10s")`: at most `burst + count · T / per` starts in any length of time T, on the
    database's clock. `strict`: at most `count` in any window of `per`.
    """

    count: int
    _: KW_ONLY
    per: Length
    burst: int = 1
    strict: bool = False

    def __post_init__(self) -> None:
        check_number("the count of a Rate", self.count)
        check_number("burst", self.burst)
        _check_positive("per", self.window)
        _check_switch("strict", self.strict)
        if self.strict and self.count > MOST_STRICT:
            raise InvalidInput(
                f"a strict Rate has a count of {MOST_STRICT:,} at most, not {self.count:,}: give a shorter "
                "per=, or leave strict out"
            )
        if self.strict and self.burst > self.count:
            raise InvalidInput(
                f"burst is {self.burst}, more than the {self.count} that strict=True allows in any "
                f"{self.per}: give a smaller burst, or leave strict out"
            )

    @property
    def window(self) -> timedelta:
        return duration(self.per, name="per")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """`Breaker(failures=5, pause="30s")`: after so many failed runs in a row no job starts for this long;
    then one does, and its success lets the others start again. `on` names the errors that count, or decides
    by a function. `per_key`: each key is counted, and paused, for itself.
    """

    failures: int = 5
    pause: Length = "30s"
    on: Matcher = (Exception,)
    per_key: bool = False

    def __post_init__(self) -> None:
        check_number("failures", self.failures)
        _check_positive("pause", self.length)
        check_matcher(self.on)
        _check_switch("per_key", self.per_key)

    @property
    def length(self) -> timedelta:
        return duration(self.pause, name="pause")

    def counts(self, error: BaseException) -> bool:
        return matches(self.on, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSpec:
    """What a limit allows, without its name."""

    per_key: int | None = None
    total: int | None = None
    rate: Rate | None = None
    rate_per_key: Rate | None = None
    turns: bool = False
    breaker: Breaker | None = None
    hold: Hold = "run"

    def __post_init__(self) -> None:
        # An operator may stop everything with 0; of code more is asked, by `Limit`.
        for name in ("per_key", "total"):
            if (number := getattr(self, name)) is not None:
                check_number(name, number, least=0)
        _check_kind("rate", self.rate, Rate, 'Rate(90, per="10s")')
        _check_kind("rate_per_key", self.rate_per_key, Rate, 'Rate(90, per="10s")')
        _check_kind("breaker", self.breaker, Breaker, 'Breaker(failures=5, pause="30s")')
        _check_switch("turns", self.turns)
        if self.hold not in ("run", "job"):
            raise InvalidInput(
                f'hold is {self.hold!r}: give "run", so that a job gives its permit back while it waits for '
                'its next run, or "job", so that it keeps it until it has ended'
            )

    @property
    def is_keyed(self) -> bool:
        """Whether something of it is counted for each key."""
        breaks_keys = self.breaker is not None and self.breaker.per_key
        return self.per_key is not None or self.rate_per_key is not None or self.turns or breaks_keys

    @property
    def has_permits(self) -> bool:
        """Whether it bounds how many run at once."""
        return self.total is not None or self.per_key is not None

    @property
    def may_be_direct(self) -> bool:
        """Whether a run that ends may hand its permit to the next job of its key by itself: if nothing is
        counted over several keys, and nothing but permits decides.
        """
        is_single = (self.total is None) != (self.per_key is None)
        return is_single and not (self.turns or self.rate or self.rate_per_key or self.breaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit of its own for one kind of job, named after it: `@app.job(limit=Limit(total=3))`. One that
    several kinds share is made by `app.limit(name, …)`.

    key: the parameters whose values are the key. per_key: how many of a key run at once; total: how many of
    all. rate: how many start in a length of time; rate_per_key: of each key. turns: keys take turns. breaker:
    stop after failures. hold: "run" (the default) gives a permit back when a run ends, "job" when the job
    has ended.
    """

    key: str | Sequence[str] = ()
    per_key: int | None = None
    total: int | None = None
    rate: Rate | None = None
    rate_per_key: Rate | None = None
    turns: bool = False
    breaker: Breaker | None = None
    hold: Hold = "run"
    name: str | None = field(default=None, init=False)
    spec: LimitSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        spec = LimitSpec(**{each.name: getattr(self, each.name) for each in fields(LimitSpec)})
        object.__setattr__(self, "key", _names(self.key))
        object.__setattr__(self, "spec", spec)
        _check_declared(spec)
        if self.key:
            _check_keyed(self)

    def by(self, *names: str) -> "Limit":
        """The same limit, with these parameters of a job as its key: `limit=stripe.by("account_id")`."""
        if not names:
            raise InvalidInput(f'{self}: name the parameters that are the key, such as .by("account_id")')
        made = copy(self)
        object.__setattr__(made, "key", _names(names))
        _check_keyed(made)
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that are its key."""
        return tuple(self.key)

    def called(self, name: str) -> "Limit":
        """The same limit under this name."""
        check_name("limit", name)
        made = copy(self)
        object.__setattr__(made, "name", name)
        return made

    def __str__(self) -> str:
        return "a Limit" if self.name is None else f'limit "{self.name}"'


def effective(declared: LimitSpec, overrides: Mapping[str, Any] | None) -> LimitSpec:
    """What counts: the values that an operator has set, in the form of `to_json`, win over those of the code.
    None takes a part of the limit away.
    """
    return replace(declared, **_read(overrides)) if overrides else declared


def to_json(spec: LimitSpec) -> dict[str, Any]:
    """As the database keeps it; a part that the limit does not have is left out. Which errors a breaker
    counts is known only to the code.
    """
    breaker = spec.breaker
    written: dict[str, Any] = {
        "per_key": spec.per_key,
        "total": spec.total,
        "rate": rate_to_json(spec.rate),
        "rate_per_key": rate_to_json(spec.rate_per_key),
        "turns": spec.turns or None,
        "breaker": None if breaker is None else breaker_to_json(breaker),
        "hold": None if spec.hold == "run" else spec.hold,
    }
    return {name: value for name, value in written.items() if value is not None}


def rate_to_json(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    per = rate.window.total_seconds()
    return {"count": rate.count, "per": per, "burst": rate.burst, "strict": rate.strict}


def breaker_to_json(breaker: Breaker) -> dict[str, Any]:
    pause = breaker.length.total_seconds()
    return {"failures": breaker.failures, "pause": pause, "per_key": breaker.per_key}


def from_json(stored: str | Mapping[str, Any]) -> LimitSpec:
    """InvalidInput for what means nothing."""
    return LimitSpec(**_read(json.loads(stored) if isinstance(stored, str) else stored))


def _read(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that are named, as `LimitSpec` takes them. What only a newer release knows is left out."""
    read: dict[str, Any] = {each.name: stored[each.name] for each in fields(LimitSpec) if each.name in stored}
    for name in ("rate", "rate_per_key"):
        if (rate := read.get(name)) is not None:
            per, burst = timedelta(seconds=rate["per"]), rate.get("burst", 1)
            read[name] = Rate(rate["count"], per=per, burst=burst, strict=rate.get("strict", False))
    if (breaker := read.get("breaker")) is not None:
        pause, per_key = timedelta(seconds=breaker["pause"]), breaker.get("per_key", False)
        read["breaker"] = Breaker(failures=breaker["failures"], pause=pause, per_key=per_key)
    if "turns" in read:
        read["turns"] = bool(read["turns"])
    if "hold" in read:
        read["hold"] = read["hold"] or "run"
    return read


def _check_declared(spec: LimitSpec) -> None:
    if not (spec.has_permits or spec.rate or spec.rate_per_key or spec.turns or spec.breaker):
        raise InvalidInput(
            "this limit limits nothing: give total= (how many run at once), per_key= (how many of each key), "
            "rate=Rate(…), rate_per_key=Rate(…), turns=True or breaker=Breaker(…)"
        )
    for name, number in (("total", spec.total), ("per_key", spec.per_key)):
        if number == 0:
            raise InvalidInput(
                f"{name} is 0, so that no job would ever run: give 1 or more; app.limits.close(…) stops a "
                "limit while workers run"
            )
    if spec.total is not None and spec.per_key is not None and spec.per_key > spec.total:
        raise InvalidInput(
            f"per_key is {spec.per_key}, more than the total of {spec.total}: give a smaller per_key, or "
            "leave one of them out"
        )
    if spec.hold == "job" and not spec.has_permits:
        raise InvalidInput(
            'hold="job" keeps a permit until the job has ended, and this limit has none: give per_key= or '
            "total="
        )


def _check_keyed(limit: Limit) -> None:
    if not limit.spec.is_keyed:
        raise InvalidInput(
            f"{limit} counts nothing for each key, and is given the key {', '.join(limit.names)}: give it "
            "per_key=, rate_per_key= or turns=True, or leave the key out"
        )


def _names(names: object) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else None
    if given is None or not all(isinstance(name, str) and name for name in given):
        raise InvalidInput(f"key is {names!r}: give the name of a parameter, or a list of names")
    if len(set(given)) < len(given):
        raise InvalidInput(f"key is {list(given)!r}: name each parameter once")
    return given


def check_number(what: str, number: object, *, least: int = 1) -> None:
    if not isinstance(number, int) or not is_whole(number) or not least <= number <= MOST:
        raise InvalidInput(f"{what} is {number!r}: give a whole number from {least} to {MOST:,}")


def _check_positive(what: str, length: timedelta) -> None:
    if length <= timedelta():
        raise InvalidInput(f'{what} is {length}: give a length of time above 0, such as "10s"')
    check_length(what, length)


def _check_switch(what: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidInput(f"{what} is {value!r}: give True or False")


def _check_kind(what: str, value: object, kind: type, wanted: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise InvalidInput(f"{what} is {value!r}: give {wanted}")
