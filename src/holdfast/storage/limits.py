"""The gate before `ready`: jobs whose limits have no permit free wait there. Who admits them, and how their
keys are looked after. Permits are handed on and given back where runs end: `sql_parts/handed_on.sql`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.shared_limits import Turn, admit_in_turns, look_at_limit
from holdfast.storage.statements import statement

BATCH = 1_000
"""Knocks that are taken at once, and jobs of one key that are admitted at once."""


class Admitted(NamedTuple):
    """What a turn did for one limit. `last` is the last knock that it took; `again` keys could not be looked
    at, because another transaction has something of theirs locked; `onward` of those who passed wait for
    their next limit now.
    """

    taken: int
    passed: int
    last: int | None
    again: int
    onward: int


class Swept(NamedTuple):
    """A page of keys that somebody waits for, up to this one."""

    knocked: int
    looked: int
    limit_name: str | None
    limit_key: str | None


_LOOK = statement("gate_look", str, is_repeatable=True)
_LOCK = statement("admit_lock", str)
_DIRECT = statement("admit_direct", Admitted)
_SWEEP = statement("gate_sweep", Swept)


def look_at_gate(schema: Schema, known: Mapping[str, int], *, with_states: bool = False) -> Statement[str]:
    """Ask which limits have knocks: of known ones from an id on, and some of those that are not known.
    `with_states`: also those that may want another look by themselves.
    """
    return _LOOK.with_params(schema, names=list(known), sinces=list(known.values()), with_states=with_states)


def admit(
    schema: Schema,
    limit: str,
    *,
    since: int = 0,
    since_pass: int = 0,
    now: datetime | None = None,
) -> Conversation[Turn]:
    """Let those pass for whom a permit is free. Hold it in a transaction: the limit is locked first, in a
    statement of its own. A limit whose keys have nothing to do with each other is counted by key alone; such
    a one may hand its permits on directly.
    """
    yield from ask(_LOCK.with_params(schema, limit=limit))
    [found] = yield from ask(look_at_limit(schema, limit, now=now))
    if not found.is_direct or found.has_state:
        # Also one that may be direct and is not yet, because a setting has changed: every key is looked at.
        return (yield from admit_in_turns(schema, limit, found, since=since, since_pass=since_pass, now=now))
    [done] = yield from ask(admit_direct(schema, limit, since=since, now=now))
    return Turn(
        taken=done.taken,
        last=done.last,
        admitted=done.passed,
        again_in=0.0 if done.again else None,
        is_direct=True,
        is_more=done.taken > done.again or done.onward > 0,
    )


def admit_direct(
    schema: Schema,
    limit: str,
    *,
    since: int = 0,
    batch: int = BATCH,
    most: int = BATCH,
    now: datetime | None = None,
) -> Statement[Admitted]:
    """Admit for each key by itself. Under the limit's lock."""
    return _DIRECT.with_params(schema, limit=limit, since=since, batch=batch, most=most, now=now)


def sweep_gate(
    schema: Schema, *, after: tuple[str, str] = ("", ""), limit: int = 2_000, now: datetime | None = None
) -> Statement[Swept]:
    """Knock for keys that somebody waits for although a permit may be free."""
    return _SWEEP.with_params(schema, after_name=after[0], after_key=after[1], limit=limit, now=now)
