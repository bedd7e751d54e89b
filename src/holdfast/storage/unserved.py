"""What no live worker serves: waiting jobs by queue and kind, and schedules by kind."""

from datetime import datetime
from typing import NamedTuple

from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement


class Unserved(NamedTuple):
    """A queue and kind with waiting jobs, or a schedule that fires jobs of a kind, that no worker serves.
    `is_quiet`: a worker that is quiet or stopping could.
    """

    schedule: str | None
    queue: str | None
    kind: str
    is_queue_served: bool
    is_kind_known: bool
    is_quiet: bool


class KnownNames(NamedTuple):
    queues: list[str]
    kinds: list[str]


class Coverage(NamedTuple):
    """Which live workers could run a job; `queues` and `kinds` are all that live workers serve. `is_quiet`:
    one could that is quiet or stopping.
    """

    is_any_worker_alive: bool
    is_queue_served: bool
    is_kind_known: bool
    is_served: bool
    is_paused: bool
    is_quiet: bool
    queues: list[str]
    kinds: list[str]


_UNSERVED = statement("unserved", Unserved, is_repeatable=True)
_KNOWN = statement("known_names", KnownNames, is_repeatable=True)
_SERVICE_OF = statement("service_of", Coverage, is_repeatable=True)


def unserved(schema: Schema, *, now: datetime | None = None) -> Statement[Unserved]:
    """At most 100 of them. Nothing while no worker is alive."""
    return _UNSERVED.with_params(schema, now=now)


def known_names(schema: Schema, *, now: datetime | None = None) -> Statement[KnownNames]:
    """What live workers serve and know, to show what may have been meant."""
    return _KNOWN.with_params(schema, now=now)


def service_of(schema: Schema, *, queue: str, kind: str, now: datetime | None = None) -> Statement[Coverage]:
    """Whether live workers serve a queue and know a kind, and whether the queue is paused."""
    return _SERVICE_OF.with_params(schema, queue=queue, kind=kind, now=now)
