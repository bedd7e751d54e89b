"""State machines: the step that each of them is at, and the fenced move to the next one."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.arrays import number_array
from holdfast.storage.flows import Fence
from holdfast.storage.statements import statement


class StoredStep(NamedTuple):
    """The step that a machine has come to, its fields as JSON text; `place` counts from 1."""

    job: int
    name: str
    place: int
    fields: str


class Move(NamedTuple):
    """From a step that has ended, with its fields, to the next one, now or after a delay."""

    fence: Fence
    name: str
    place: int
    fields: str
    next_name: str
    next_fields: str
    delay: timedelta | None = None


class Moved(NamedTuple):
    run: int
    answer: Literal["moved", "stop", "lost"]


_LOAD = statement("machine_load", StoredStep, is_repeatable=True)
_NEXT = statement("machine_next", Moved)


def load_steps(schema: Schema, jobs: Sequence[int]) -> Statement[StoredStep]:
    """Where machines stand; those at their first step are left out."""
    return _LOAD.with_params(schema, jobs=number_array(jobs))


def move(schema: Schema, moves: Sequence[Move], *, now: datetime | None = None) -> Statement[Moved]:
    """Let machines go on to their next steps."""
    return _NEXT.with_params(
        schema,
        workers=[each.fence.worker for each in moves],
        jobs=[each.fence.job for each in moves],
        runs=[each.fence.run for each in moves],
        names=[each.name for each in moves],
        places=[each.place for each in moves],
        fields=[each.fields for each in moves],
        next_names=[each.next_name for each in moves],
        next_fields=[each.next_fields for each in moves],
        delays=[each.delay for each in moves],
        now=now,
    )
