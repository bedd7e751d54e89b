"""`app.limits`: how a program looks at limits and steers them while workers run. Every verb comes twice:
awaited, and blocking with `_sync`. With `conn` it is part of your transaction.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.domain.duration import duration
from holdfast.domain.job import check_time
from holdfast.domain.limits import Breaker, Limit, LimitSpec, Rate, effective, from_json, to_json
from holdfast.errors import InvalidInput, LimitNotFound
from holdfast.insights.limit_records import (
    LimitDetail,
    LimitStatus,
    holder_of,
    key_status,
    limit_status,
)
from holdfast.insights.page_cursor import key_cursor, read_key_cursor
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import limit_rules
from holdfast.storage.audit import PYTHON, check_signed, put_audit
from holdfast.storage.limits_shown import limit_holders, limit_keys, limits

Until = datetime | timedelta | str
Name = str | Limit
# Named out here: inside the class, `list` and `set` are verbs.
Found = list[LimitStatus]


class _Unset(Enum):
    UNSET = 0


UNSET: Final = _Unset.UNSET
"""A setting that is left as it is; None takes it away."""
_Number = int | _Unset | None
_MOST_NAMES = 10_000
_HEAVIEST = 1_000_000


class Limits:
    def __init__(self, schema: Schema, holder: Holder) -> None:
        self._schema = schema
        self._holder = holder

    async def list(
        self, *, after: LimitStatus | None = None, limit: int = 1_000, conn: object = None
    ) -> Found:
        """Every limit that code has declared, by name: what it allows, how many permits are held, and how
        many jobs wait. `after`: the last limit of the page before this one.
        """
        return await self._holder.look(self._list(after, limit), conn)

    def list_sync(
        self, *, after: LimitStatus | None = None, limit: int = 1_000, conn: object = None
    ) -> Found:
        return self._holder.look_sync(self._list(after, limit), conn)

    async def show(
        self,
        limit: Name,
        *,
        key: str | None = None,
        after: str | None = None,
        most: int = 50,
        conn: object = None,
    ) -> LimitDetail:
        """One limit, a page of its keys with who holds permits and who waits, and the jobs that hold them; or
        only one key. `after`: the `next` of the page before. LimitNotFound if nothing has declared it.
        """
        return await self._holder.look(self._show(limit, key, after, most), conn)

    def show_sync(
        self,
        limit: Name,
        *,
        key: str | None = None,
        after: str | None = None,
        most: int = 50,
        conn: object = None,
    ) -> LimitDetail:
        return self._holder.look_sync(self._show(limit, key, after, most), conn)

    async def set(
        self,
        limit: Name,
        *,
        key: str | None = None,
        total: _Number = UNSET,
        per_key: _Number = UNSET,
        rate: Rate | _Unset | None = UNSET,
        rate_per_key: Rate | _Unset | None = UNSET,
        breaker: Breaker | _Unset | None = UNSET,
        turns: bool | None = None,
        weight: float | None = None,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> LimitStatus:
        """Change what a limit allows, from now on and until it is reset: a deploy does not change it back.
        None takes a part away; what you leave out stays. With `key`: `per_key` and `weight` of that key only.
        Jobs that hold more permits than it allows now go on; none is admitted until it fits.
        """
        given = _given(
            total=total,
            per_key=per_key,
            rate=rate,
            rate_per_key=rate_per_key,
            breaker=breaker,
            turns=UNSET if turns is None else turns,
        )
        return await self._holder.hold(self._set(limit, key, given, weight, by=by, reason=reason), conn)

    def set_sync(
        self,
        limit: Name,
        *,
        key: str | None = None,
        total: _Number = UNSET,
        per_key: _Number = UNSET,
        rate: Rate | _Unset | None = UNSET,
        rate_per_key: Rate | _Unset | None = UNSET,
        breaker: Breaker | _Unset | None = UNSET,
        turns: bool | None = None,
        weight: float | None = None,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> LimitStatus:
        given = _given(
            total=total,
            per_key=per_key,
            rate=rate,
            rate_per_key=rate_per_key,
            breaker=breaker,
            turns=UNSET if turns is None else turns,
        )
        return self._holder.hold_sync(self._set(limit, key, given, weight, by=by, reason=reason), conn)

    async def reset(
        self,
        limit: Name,
        *,
        key: str | None = None,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> LimitStatus:
        """Forget what was set: what code declares counts again. With `key`: what was set for that key."""
        return await self._holder.hold(self._reset(limit, key, by, reason), conn)

    def reset_sync(
        self,
        limit: Name,
        *,
        key: str | None = None,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> LimitStatus:
        return self._holder.hold_sync(self._reset(limit, key, by, reason), conn)

    async def close(
        self,
        limit: Name,
        *,
        key: str | None = None,
        until: Until | None = None,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> LimitStatus:
        """Let no job of a limit start, or only none of a key: until it is opened, until a time, or for a
        length such as "2h". Running jobs go on; those that wait cost no attempt.
        """
        return await self._holder.hold(self._close(limit, key, until, by, reason), conn)

    def close_sync(
        self,
        limit: Name,
        *,
        key: str | None = None,
        until: Until | None = None,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> LimitStatus:
        return self._holder.hold_sync(self._close(limit, key, until, by, reason), conn)

    async def open(
        self,
        limit: Name,
        *,
        key: str | None = None,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> bool:
        """Let jobs start again: after `close`, and also what a breaker or a handler has stopped. Answers
        whether an operator had closed it.
        """
        return await self._holder.hold(self._open(limit, key, by, reason), conn)

    def open_sync(
        self,
        limit: Name,
        *,
        key: str | None = None,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> bool:
        return self._holder.hold_sync(self._open(limit, key, by, reason), conn)

    async def remove(
        self,
        limit: Name,
        *,
        force: bool = False,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> bool:
        """Take a limit away that code no longer declares: all that wait for it are free. Answers whether
        there was one. A worker whose code declares it brings it back when it starts.
        """
        return await self._holder.hold(self._remove(limit, by, reason, force=force), conn)

    def remove_sync(
        self,
        limit: Name,
        *,
        force: bool = False,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> bool:
        return self._holder.hold_sync(self._remove(limit, by, reason, force=force), conn)

    def _list(self, after: object, most: int) -> Conversation[Found]:
        if after is not None and not isinstance(after, LimitStatus):
            raise InvalidInput(f"after is {after!r}: give the last LimitStatus of the previous page")
        last = None if after is None else after.name
        rows = yield from ask(limits(self._schema, after=last, limit=most))
        return [limit_status(row) for row in rows]

    def _show(self, limit: Name, key: str | None, after: str | None, most: int) -> Conversation[LimitDetail]:
        name = name_of(limit)
        status = yield from self._status(name)
        behind = None if after is None else read_key_cursor(after)
        rows = yield from ask(limit_keys(self._schema, name, key=key, after=behind, most=most))
        holders = yield from ask(limit_holders(self._schema, name, key=key))
        return LimitDetail(
            status,
            tuple(key_status(row, status) for row in rows),
            tuple(holder_of(row) for row in holders),
            next=key_cursor(rows[-1].key) if len(rows) == most and key is None else None,
        )

    def _status(self, name: str) -> Conversation[LimitStatus]:
        rows = yield from ask(limits(self._schema, name=name, limit=1))
        if not rows:
            known = yield from ask(limits(self._schema, limit=_MOST_NAMES))
            raise LimitNotFound(name, near=did_you_mean(name, [row.name for row in known]))
        return limit_status(rows[0])

    def _stored(self, name: str) -> Conversation[limit_rules.StoredLimit]:
        rows = yield from ask(limit_rules.read_limit(self._schema, name))
        if not rows:
            yield from self._status(name)
        return rows[0]

    def _set(
        self,
        limit: Name,
        key: str | None,
        given: Mapping[str, Any],
        weight: float | None,
        *,
        by: str,
        reason: str | None,
    ) -> Conversation[LimitStatus]:
        check_signed(by, reason)
        name = name_of(limit)
        if not given and weight is None:
            raise InvalidInput("nothing to set: give total=, per_key=, rate=, weight= or another setting")
        stored = yield from self._stored(name)
        if key is None:
            _check_without_key(given, weight)
            declared = from_json(stored.declared)
            before = json.loads(stored.overrides) if stored.overrides else {}
            overrides = {**before, **given}
            if not effective(declared, overrides).is_keyed and declared.is_keyed:
                raise InvalidInput(
                    f'limit "{name}" would have nothing left that is counted for each key, and its jobs have '
                    "keys: give a per_key, or remove the limit"
                )
            rule = limit_rules.RuleToWrite(name, declared, overrides)
            yield from ask(limit_rules.write_rules(self._schema, [rule]))
        else:
            per_key = _check_key_settings(given, weight)
            yield from ask(limit_rules.write_key(self._schema, name, key, per_key=per_key, weight=weight))
        settings = {**given, **({} if weight is None else {"weight": weight})}
        words = ", ".join(f"{setting}={json.dumps(value)}" for setting, value in settings.items())
        yield from self._remember(f"set limit {words}", name, key, by, reason)
        return (yield from self._status(name))

    def _reset(self, limit: Name, key: str | None, by: str, reason: str | None) -> Conversation[LimitStatus]:
        check_signed(by, reason)
        name = name_of(limit)
        stored = yield from self._stored(name)
        if key is None:
            rule = limit_rules.RuleToWrite(name, from_json(stored.declared), None)
            yield from ask(limit_rules.write_rules(self._schema, [rule]))
        else:
            yield from ask(limit_rules.write_key(self._schema, name, key, forget=True))
        yield from self._remember("reset limit", name, key, by, reason)
        return (yield from self._status(name))

    def _close(
        self, limit: Name, key: str | None, until: Until | None, by: str, reason: str | None
    ) -> Conversation[LimitStatus]:
        check_signed(by, reason)
        name = name_of(limit)
        moment = until if isinstance(until, datetime) else None
        check_time("until", moment)
        length = None if until is None or moment is not None else duration(until, name="until")
        closed = yield from ask(
            limit_rules.close(self._schema, name, key=key, until=moment, length=length, reason=reason)
        )
        if not closed:
            yield from self._status(name)
        yield from self._remember("close limit", name, key, by, reason)
        return (yield from self._status(name))

    def _open(self, limit: Name, key: str | None, by: str, reason: str | None) -> Conversation[bool]:
        check_signed(by, reason)
        name = name_of(limit)
        opened = yield from ask(limit_rules.close(self._schema, name, key=key, opens=True))
        if not opened:
            yield from self._status(name)
        yield from self._remember("open limit", name, key, by, reason)
        return opened[0].was_closed

    def _remove(self, limit: Name, by: str, reason: str | None, *, force: bool) -> Conversation[bool]:
        check_signed(by, reason)
        name = name_of(limit)
        if (yield from ask(limit_rules.remove(self._schema, name, force=force))):
            yield from self._remember("remove limit", name, None, by, reason)
            return True
        status = yield from self._status(name)
        if not status.is_removed:
            kinds = ", ".join(status.kinds)
            raise InvalidInput(
                f'limit "{name}" is in use: live workers run {kinds}, whose code declares it, so everything '
                "that waits would start at once. Change it with set(), or pass force=True"
            )
        return False

    def _remember(
        self, action: str, name: str, key: str | None, by: str, reason: str | None
    ) -> Conversation[None]:
        target = f"limit {name}" if key is None else f"limit {name}, key {key}"
        yield from ask(put_audit(self._schema, action=action, by=by, target=target, reason=reason, counts={}))


def name_of(limit: object) -> str:
    if isinstance(limit, Limit):
        if limit.name is None:
            raise InvalidInput(f"{limit} has no name yet: give the kind that it is declared for, as text")
        return limit.name
    if not isinstance(limit, str) or not limit:
        raise InvalidInput(f"{limit!r} is no limit: give its name, or what app.limit(…) has returned")
    return limit


def _given(**named: object) -> dict[str, Any]:
    """The settings that are to change, as JSON; checked as a declaration is."""
    changed: dict[str, Any] = {name: value for name, value in named.items() if value is not UNSET}
    spec = LimitSpec(**{name: value for name, value in changed.items() if value is not None})
    written = to_json(spec)
    return {name: written.get(name, value) for name, value in changed.items()}


def _check_without_key(given: Mapping[str, Any], weight: float | None) -> None:
    if weight is not None:
        raise InvalidInput(f"weight is {weight}, and belongs to a key: give key= too")
    if not given:
        raise InvalidInput("nothing to set: give total=, per_key=, rate= or another setting")


def _check_key_settings(given: Mapping[str, Any], weight: float | None) -> int | None:
    if other := [name for name in given if name != "per_key"]:
        raise InvalidInput(f"{', '.join(other)} cannot be set for one key: give per_key= or weight=")
    if "per_key" in given and given["per_key"] is None:
        raise InvalidInput("per_key is None: forget what was set for a key with app.limits.reset(…, key=…)")
    if weight is not None and not (not isinstance(weight, bool) and 0 < weight <= _HEAVIEST):
        raise InvalidInput(f"weight is {weight!r}: give a number above 0, such as 2 for twice the turns")
    per_key = given.get("per_key")
    return per_key if isinstance(per_key, int) else None
