"""What operators see of a kind of job, as workers have stored it."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from holdfast.domain.backoff import Backoff, from_json
from holdfast.domain.parameters import KindParameter, names_of, required_of, type_of
from holdfast.storage.kinds import KindRow


@dataclass(frozen=True, slots=True)
class UsedLimit:
    """A limit that jobs of a kind have to pass, and the parameters that are their key there."""

    name: str
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KindRecord:
    """A kind as the worker that started last has declared it. `workers` live now and know it. `secrets` are
    the places in arguments and result that are masked. `json_schema` is that of all parameters. `version`:
    the release of Holdfast that has stored it. `on_lost` and `tags` are None if that is too old to know them.
    """

    name: str
    style: str
    queue: str
    priority: int
    max_attempts: int
    backoff: Backoff
    timeout: timedelta | None
    keep: timedelta | None
    on_lost: str | None
    tags: tuple[str, ...] | None
    parameters: tuple[KindParameter, ...]
    secrets: tuple[str, ...]
    limits: tuple[UsedLimit, ...]
    json_schema: dict[str, Any]
    version: str
    workers: int
    first_seen_at: datetime
    last_seen_at: datetime


def kind_record(row: KindRow) -> KindRecord:
    schema = json.loads(row.parameters)
    required = required_of(schema)
    return KindRecord(
        name=row.name,
        style=row.style,
        queue=row.queue,
        priority=row.priority,
        max_attempts=row.max_attempts,
        backoff=from_json(row.backoff),
        timeout=row.timeout,
        keep=row.keep,
        on_lost=row.on_lost,
        tags=None if row.tags is None else tuple(row.tags),
        parameters=tuple(
            KindParameter(name, type_of(schema, name), name in required, row.redaction.covers((name,)))
            for name in names_of(schema)
        ),
        secrets=tuple(row.secrets),
        limits=tuple(UsedLimit(each.name, each.by) for each in row.limits),
        json_schema=schema,
        version=row.version,
        workers=row.workers,
        first_seen_at=row.first_seen_at,
        last_seen_at=row.last_seen_at,
    )
