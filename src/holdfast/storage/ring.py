"""The ring of ready segments: turn it, drain and truncate what is behind, park what no worker can take."""

from datetime import datetime, timedelta

from holdfast.domain.ring import SEGMENTS, Ring
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement

LEFTOVERS = 10_000
CLOSED_FOR = timedelta(seconds=10)


def _ring(  # noqa: PLR0917  # called with the columns of a row
    version: int,
    current: int,
    closed: int | None,
    age: timedelta,
    sizes: list[int],
    drained: list[bool],
) -> Ring:
    return Ring(version, current, closed, age, tuple(sizes), tuple(drained))


_LOOK = statement("ring_look", _ring, is_repeatable=True)
_VERSION = statement("ring_version", int, is_repeatable=True)
_TURN = statement("ring_turn", int)
_CLOSE = statement("ring_close", int)
_OPEN = statement("ring_open", int)
_UNPARK = statement("unpark", int)
_TRUNCATE = statement("ring_truncate", int)
_GATHER = statement("ring_gather", int)
_PARK = statement("park", int)
_TRUNCATES, _GATHERS, _PARKS = (
    {segment: file.filled(segment=str(segment)) for segment in SEGMENTS}
    for file in (_TRUNCATE, _GATHER, _PARK)
)
_PARK_GATED = _PARK.filled(segment="gated")


def look_at_ring(schema: Schema, *, now: datetime | None = None) -> Statement[Ring]:
    """Read what `next_moves` decides from."""
    return _LOOK.with_params(schema, now=now)


def ring_version(schema: Schema) -> Statement[int]:
    """Read only what `turn` and `close` want to know."""
    return _VERSION.with_params(schema)


def turn(schema: Schema, *, to: int, version: int, now: datetime | None = None) -> Statement[int]:
    """Let new rows go to another segment; no answer when the ring has changed since `version`."""
    return _TURN.with_params(schema, segment=to, version=version, now=now)


def close(
    schema: Schema, *, segment: int, version: int, length: timedelta = CLOSED_FOR, now: datetime | None = None
) -> Statement[int]:
    """Take a segment out of the claims' list; no answer when the ring has changed since `version`."""
    return _CLOSE.with_params(schema, segment=segment, version=version, length=length, now=now)


def reopen(schema: Schema, *, segment: int) -> Statement[int]:
    """Give a segment back to the claims' list."""
    return _OPEN.with_params(schema, segment=segment)


def truncate(schema: Schema, *, segment: int) -> Statement[int]:
    """Empty a closed segment, or leave it as it is where it still has rows or is not closed. A `Conflict`
    means that a transaction uses it just now.
    """
    return _TRUNCATES[segment].with_params(schema)


def gather(schema: Schema, *, segment: int, limit: int = LEFTOVERS) -> Statement[int]:
    """Move the jobs that are left in a segment to the current one, unless they are more than `limit`."""
    return _GATHERS[segment].with_params(schema, limit=limit)


def park(
    schema: Schema,
    *,
    segment: int,
    limit: int = LEFTOVERS,
    is_only_limited: bool = False,
    now: datetime | None = None,
) -> Statement[int]:
    """Move what no worker can take out of the way. Repeat until the answer is short. `is_only_limited`: only
    jobs with limits, whose permits others may want.
    """
    return _PARKS[segment].with_params(schema, limit=limit, only_limited=is_only_limited, now=now)


def park_gated(schema: Schema, *, limit: int = LEFTOVERS, now: datetime | None = None) -> Statement[int]:
    """The same for jobs that wait at a gate."""
    return _PARK_GATED.with_params(schema, limit=limit, only_limited=False, now=now)


def unpark(schema: Schema, *, limit: int = LEFTOVERS, now: datetime | None = None) -> Statement[int]:
    """Bring back what a worker can take by now. Repeat until the answer is short."""
    return _UNPARK.with_params(schema, limit=limit, now=now)
