"""Whether a worker with `--once` has nothing left to do."""

from collections.abc import Sequence
from datetime import datetime

from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement

_IS_IDLE = statement("is_idle", bool, is_repeatable=True)


def is_idle(
    schema: Schema,
    *,
    worker: int,
    queues: Sequence[str],
    kinds: Sequence[str],
    now: datetime | None = None,
) -> Statement[bool]:
    """Ask whether there is nothing that this worker runs or could run now."""
    return _IS_IDLE.with_params(schema, worker=worker, queues=list(queues), kinds=list(kinds), now=now)
