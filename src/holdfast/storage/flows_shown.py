"""Flows as operators see them: a page of many, one in full, and a step back for one that has failed."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.domain.job import KEY_LIMIT, check_ids, check_limit, check_name
from holdfast.domain.states import JobState
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.operators import refresh_dead
from holdfast.storage.statements import statement

SEARCHED = 10_000
MOST_STEPS = 20_000


class FlowRow(NamedTuple):
    job: int
    kind: str
    queue: str
    state: JobState
    attempt: int
    max_attempts: int
    created_at: datetime
    finished_at: datetime | None
    done: int
    step: str | None
    waits_for: str | None
    until: datetime | None
    error: str | None
    now: datetime


class StepRow(NamedTuple):
    name: str
    kind: str
    place: int | None
    is_done: bool
    failures: int
    value: str | None
    error: str | None
    written_at: datetime
    until: datetime | None
    key: str | None
    child: int | None
    child_kind: str | None
    child_state: JobState | None


_LIST = statement("flow_list", FlowRow, is_repeatable=True)
_IS_FLOW = statement("flow_is", bool, is_repeatable=True)
_SHOW = statement("flow_show", StepRow, is_repeatable=True)
_REWIND = statement("flow_rewind", str)


def flows(
    schema: Schema,
    *,
    kind: str | None = None,
    known: Sequence[str] = (),
    state: JobState | None = None,
    before: int | None = None,
    limit: int = 100,
    now: datetime | None = None,
) -> Statement[FlowRow]:
    """A page, newest first; the next one begins `before` the last of this one. A job that has not begun is
    only taken for a flow if it is of the kind that is asked for, or of one that is known.
    """
    if kind is not None:
        check_name("kind", kind)
    check_ids([] if before is None else [before])
    check_limit(limit)
    return _LIST.with_params(
        schema,
        kind=kind,
        known=[*known] if kind is None else [kind],
        state=state,
        before=before,
        limit=limit,
        searched=SEARCHED,
        # A few more than asked for: a job that was not to be kept may have left its checkpoints.
        hops=limit + 100 if kind is None and state is None else SEARCHED,
        looks=limit if state is None else SEARCHED,
        now=now,
    )


def is_flow(schema: Schema, job: int, kind: str) -> Statement[bool]:
    """Whether a job is a flow, by what it and others of its kind have stored."""
    return _IS_FLOW.with_params(schema, job=job, kind=kind, hops=SEARCHED)


def steps(schema: Schema, job: int) -> Statement[StepRow]:
    """What a flow has done and waits for."""
    check_ids([job])
    return _SHOW.with_params(schema, job=job, limit=MOST_STEPS)


def retry_from(schema: Schema, job: int, step: str, *, now: datetime | None = None) -> Conversation[str]:
    """Put a dead flow back to a step, and let it go on with all attempts. Hold it in a transaction. Answers
    alive or unknown if nothing was changed, else as `resume_dead`.
    """
    check_ids([job])
    check_name("step name", step, KEY_LIMIT)
    [answer] = yield from ask(_REWIND.with_params(schema, job=job, step=step, now=now))
    if answer != "rewound":
        return answer
    return (yield from refresh_dead(schema, [job], now=now))[job]
