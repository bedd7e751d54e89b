"""What operators see of a limit, of its keys, and of the jobs that hold its permits."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypedDict

from holdfast.domain.duration import compact
from holdfast.domain.limits import LimitSpec, Rate, effective, from_json
from holdfast.storage.limits_shown import KEY_CAP, LIMIT_CAP, HolderRow, LimitKeyRow, LimitRow


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """A limit. `total` to `hold` are what counts: what code declares, and `overrides`, which an operator has
    set and which win until they are reset. `held` permits and `waiting` jobs are counted up to 10,000,
    `has_more_waiting` says that there are more. `open_for`: its breaker has stopped it for so long.
    `stopped_keys` were stopped by a breaker or by a handler. `is_removed`: everything passes.
    """

    name: str
    total: int | None
    per_key: int | None
    rate: str | None
    rate_per_key: str | None
    turns: bool
    breaker: str | None
    hold: str
    overrides: dict[str, Any]
    held: int
    waiting: int
    has_more_waiting: bool
    oldest_wait: timedelta | None
    keys: int
    stopped_keys: int
    failures: int
    open_for: timedelta | None
    closed_at: datetime | None
    closed_until: datetime | None
    closed_reason: str | None
    is_removed: bool
    kinds: tuple[str, ...]
    set_keys: tuple[str, ...]
    changed_at: datetime

    @property
    def is_closed(self) -> bool:
        return self.closed_at is not None

    @property
    def waiting_text(self) -> str:
        """For people: `17`, or `10,000+`."""
        return f"{self.waiting:,}{'+' if self.has_more_waiting else ''}"


@dataclass(frozen=True, slots=True)
class LimitKeyStatus:
    """A key of a limit. `allowed` permits at once, if its limit has such a number, of which `held` are held.
    `weight` and `per_key` are what an operator has set for this key. `stopped_for`: a breaker or a handler
    has stopped it for so long. `free_in`: when its rate allows the next start.
    """

    key: str
    held: int
    allowed: int | None
    waiting: int
    has_more_waiting: bool
    oldest_wait: timedelta | None
    per_key: int | None
    weight: float | None
    failures: int
    stopped_for: timedelta | None
    free_in: timedelta | None
    closed_at: datetime | None
    closed_until: datetime | None
    closed_reason: str | None

    @property
    def is_closed(self) -> bool:
        return self.closed_at is not None

    @property
    def waiting_text(self) -> str:
        return f"{self.waiting:,}{'+' if self.has_more_waiting else ''}"


@dataclass(frozen=True, slots=True)
class LimitHolder:
    """A job that holds a permit: it runs, since then, or it keeps the permit until its next run."""

    job: int
    state: str
    kind: str
    key: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class LimitDetail:
    """A limit, a page of its keys, and some of the jobs that hold its permits. Permits that are held and not
    by one of the holders belong to jobs that are ready, and wait for a worker. `next`: the cursor of the
    page of keys that follows.
    """

    limit: LimitStatus
    keys: tuple[LimitKeyStatus, ...]
    holders: tuple[LimitHolder, ...]
    next: str | None = field(default=None)


def limit_status(row: LimitRow) -> LimitStatus:
    overrides = json.loads(row.overrides) if row.overrides else {}
    spec = LimitSpec() if row.removed_at is not None else effective(from_json(row.declared), overrides)
    breaker = spec.breaker
    each = " of each key" if breaker is not None and breaker.per_key else ""
    return LimitStatus(
        row.name,
        total=spec.total,
        per_key=spec.per_key,
        rate=rate_text(spec.rate),
        rate_per_key=rate_text(spec.rate_per_key),
        turns=spec.turns,
        breaker=None
        if breaker is None
        else f"{breaker.failures} failures in a row{each}, then {compact(breaker.length)}",
        hold=spec.hold,
        overrides=overrides,
        held=row.held,
        waiting=min(row.waiting, LIMIT_CAP),
        has_more_waiting=row.waiting > LIMIT_CAP,
        oldest_wait=row.oldest_wait,
        keys=row.keys,
        stopped_keys=row.shut_keys,
        failures=row.failures,
        open_for=_left(row.open_until, row.now),
        **_closing(row),
        is_removed=row.removed_at is not None,
        kinds=tuple(row.kinds),
        set_keys=tuple(row.set_keys),
        changed_at=row.changed_at,
    )


def key_status(row: LimitKeyRow, limit: LimitStatus) -> LimitKeyStatus:
    total = limit.total if row.key == "" else None
    stopped = _left(row.open_until, row.now)
    return LimitKeyStatus(
        row.key,
        held=row.held,
        allowed=next((each for each in (row.per_key, limit.per_key, total) if each is not None), None),
        waiting=min(row.waiting, KEY_CAP),
        has_more_waiting=row.waiting > KEY_CAP,
        oldest_wait=row.oldest_wait,
        per_key=row.per_key,
        weight=row.weight,
        failures=row.failures,
        stopped_for=stopped,
        free_in=_left(row.due_at, row.now) if stopped is None and row.waiting else None,
        **_closing(row),
    )


def holder_of(row: HolderRow) -> LimitHolder:
    return LimitHolder(row.job, row.state, row.kind, row.key, row.since)


def rate_text(rate: Rate | None) -> str | None:
    """`90 per 10s`, and what else was chosen."""
    if rate is None:
        return None
    more = ", strict" if rate.strict else f", burst {rate.burst:,}" if rate.burst > 1 else ""
    return f"{rate.count:,} per {compact(rate.window)}{more}"


class _Closing(TypedDict):
    closed_at: datetime | None
    closed_until: datetime | None
    closed_reason: str | None


def _closing(row: LimitRow | LimitKeyRow) -> _Closing:
    """What is closed until a time stays written down when that is over; it is open then."""
    if row.closed_until is not None and row.closed_until <= row.now:
        return _Closing(closed_at=None, closed_until=None, closed_reason=None)
    return _Closing(closed_at=row.closed_at, closed_until=row.closed_until, closed_reason=row.closed_reason)


def _left(moment: datetime | None, now: datetime) -> timedelta | None:
    return moment - now if moment is not None and moment > now else None
