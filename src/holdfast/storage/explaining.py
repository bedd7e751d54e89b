"""What decides whether a job can run: asked for the explanation of one job."""

from datetime import datetime
from typing import NamedTuple

from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement

AHEAD_CAP = 1_000


class Circumstances(NamedTuple):
    """`able` live workers serve the job's queue and know its kind; of their `slots`, `busy` are taken. The
    `quiet_workers` and `stopping_workers` would be able too, if they claimed jobs; `quiet_at` to
    `quiet_reason` are of the one that was asked first. `host` to `lost_at` are those of the worker that runs
    the job. `key_holder` is another job that has its unique key; `key_until`: the key is held until then,
    even if the job ends before.
    """

    now: datetime
    workers: int
    is_queue_served: bool
    is_kind_known: bool
    able: int
    slots: int
    busy: int
    busy_kinds: list[str] | None
    busy_since: datetime | None
    paused_at: datetime | None
    paused_until: datetime | None
    pause_note: str | None
    is_led: bool
    ahead: int
    quiet_workers: list[int]
    quiet_at: datetime | None
    quiet_by: str | None
    quiet_reason: str | None
    stopping_workers: list[int]
    host: str | None
    pid: int | None
    expires_at: datetime | None
    lost_at: datetime | None
    key_holder: int | None
    key_until: datetime | None
    debounced_since: datetime | None
    debounced_until: datetime | None
    superseded_by: int | None
    waits: list[str]
    children: list[int]
    waits_until: datetime | None
    queues: list[str]
    kinds: list[str]


_EXPLAIN = statement("explain", Circumstances, is_repeatable=True)


def circumstances(
    schema: Schema,
    *,
    job: int,
    kind: str,
    queue: str,
    priority: int,
    worker: int | None,
    unique_key: str | None,
    now: datetime | None = None,
) -> Statement[Circumstances]:
    return _EXPLAIN.with_params(
        schema,
        job=job,
        kind=kind,
        queue=queue,
        priority=priority,
        worker=worker,
        unique_key=unique_key,
        cap=AHEAD_CAP,
        now=now,
    )
