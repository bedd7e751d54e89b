"""Limits that one admitter decides: totals over keys, rates, turns, breakers, closed limits. All of it under
the limit's lock, which is taken in an earlier statement of the same transaction: a count in the statement
that waits for a lock is older than what it waited for.
"""

from datetime import datetime
from typing import NamedTuple

from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement

MOST = 1_000


class LimitLook(NamedTuple):
    """How a limit stands. `may_pass_on`: its permits could be handed on directly; `may_be_direct`: as far as
    its settings go.
    """

    is_known: bool
    is_direct: bool
    has_state: bool
    is_stale: bool
    has_rate: bool
    may_be_direct: bool
    may_pass_on: bool


class Rebuilt(NamedTuple):
    lanes: int
    waiting: int


class Folded(NamedTuple):
    """How many knocks were taken, the last of them, and how many lanes had come to their time."""

    taken: int
    last: int | None
    due: int


class Charged(NamedTuple):
    charged: int
    pending: int


class Admitted(NamedTuple):
    """How many jobs were admitted; the limits that they knocked at next; whether more could be but for jobs
    of an earlier turn; the first pass that was looked at; how many keys were looked at in vain; in how many
    seconds to look again; how long those admitted have waited at the gate, in seconds together.
    """

    admitted: int
    knocked: list[str]
    is_overtaken: bool
    first: int | None
    passed_over: int
    again_in: float | None
    waited: float
    told: int


class Turn(NamedTuple):
    """What one look at a limit did. `is_direct`: from now on its permits are handed on directly."""

    taken: int = 0
    last: int | None = None
    admitted: int = 0
    knocked: tuple[str, ...] = ()
    first: int | None = None
    again_in: float | None = None
    waited: float = 0.0
    is_direct: bool = False
    is_more: bool = False


_LOOK = statement("limit_look", LimitLook)
_ENSURE = statement("limit_ensure", str)
_REBUILD = statement("limit_rebuild", Rebuilt)
_TO_DIRECT = statement("limit_to_direct", bool)
_FOLD = statement("admit_fold", Folded)
_CHARGE = statement("admit_charge", Charged)
_SHARED = statement("admit_shared", Admitted)

# What was admitted under a rate and is not claimed yet is looked at again after so many seconds.
_CLAIMED_SOON = 0.02
_CLAIMED_LATER = 0.25


def look_at_limit(schema: Schema, limit: str, *, now: datetime | None = None) -> Statement[LimitLook]:
    return _LOOK.with_params(schema, limit=limit, now=now)


def admit_in_turns(
    schema: Schema,
    limit: str,
    found: LimitLook,
    *,
    since: int = 0,
    since_pass: int = 0,
    now: datetime | None = None,
) -> Conversation[Turn]:
    """Fold what came and what was given back, and admit what may pass. The caller holds the limit's lock, and
    has looked at the limit under it. `since`, `since_pass`: where an earlier turn has begun, so that rows
    which are gone are not stepped over again; 0: from the front.
    """
    if not found.is_known:
        yield from ask(_ENSURE.with_params(schema, limit=limit, now=now))
    if not found.has_state or found.is_stale:
        yield from ask(_REBUILD.with_params(schema, limit=limit, now=now))
        since_pass = 0
    [folded] = yield from ask(_FOLD.with_params(schema, limit=limit, since=since, most=MOST, now=now))
    pending = 0
    if found.has_rate:
        [charged] = yield from ask(_CHARGE.with_params(schema, limit=limit, now=now))
        pending = charged.pending
    shared = _SHARED.with_params(schema, limit=limit, most=MOST, since=since_pass, now=now)
    [admitted] = yield from ask(shared)
    is_direct = False
    # Also while jobs come and go, or a limit that is busy would never become direct.
    if found.may_be_direct and folded.taken < MOST:
        [after] = yield from ask(look_at_limit(schema, limit, now=now))
        if after.may_pass_on:
            [is_direct] = yield from ask(_TO_DIRECT.with_params(schema, limit=limit))
    waits = [admitted.again_in]
    if found.has_rate and (pending or admitted.admitted):
        waits.append(_CLAIMED_SOON if admitted.admitted else _CLAIMED_LATER)
    if admitted.is_overtaken:
        waits.append(_CLAIMED_SOON)
    return Turn(
        taken=folded.taken,
        last=folded.last,
        admitted=admitted.admitted,
        knocked=tuple(admitted.knocked),
        first=admitted.first,
        again_in=min((max(wait, 0.0) for wait in waits if wait is not None), default=None),
        waited=admitted.waited,
        is_direct=is_direct,
        is_more=folded.taken >= MOST or admitted.admitted > 0 or admitted.passed_over > 0,
    )
