"""One job looked up: its state, its runs, and for how long it has not fitted the code."""

from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.domain.job import check_ids
from holdfast.domain.states import JobState, RunOutcome
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement, StatementFile
from holdfast.storage.statements import statement


class Found(NamedTuple):
    """One job with its state."""

    job: int
    kind: str
    queue: str
    priority: int
    state: JobState
    attempt: int
    max_attempts: int
    args: str
    tags: list[str] | None
    unique_key: str | None
    created_at: datetime
    run_at: datetime | None
    started_at: datetime | None
    worker: int | None
    deadline_at: datetime | None
    finished_at: datetime | None
    error: str | None
    result: str | None
    flag: str | None
    cancel_requested_at: datetime | None
    is_parked: bool | None
    progress: str | None


class LedgerEntry(NamedTuple):
    run: int
    attempt: int
    outcome: RunOutcome
    is_final: bool
    worker: int | None
    started_at: datetime | None
    finished_at: datetime
    flag: str | None
    error: str | None
    result: str | None
    ready_at: datetime | None


_FIND = statement("find", Found, is_repeatable=True)
_MISFIT: StatementFile[timedelta | None] = statement("misfit", lambda lasting: lasting, is_repeatable=True)
_HISTORY = statement("history", LedgerEntry, is_repeatable=True)


def find(schema: Schema, job: int) -> Statement[Found]:
    """One job with its state; no row if the job does not exist (any more)."""
    check_ids([job])
    return _FIND.with_params(schema, job=job)


def misfit_for(schema: Schema, job: int, *, now: datetime | None = None) -> Statement[timedelta | None]:
    """For how long the arguments of a job have not fitted the code; None if its last run could read them."""
    return _MISFIT.with_params(schema, job=job, now=now)


def history(schema: Schema, job: int) -> Statement[LedgerEntry]:
    """All that the ledger has of a job, oldest first."""
    check_ids([job])
    return _HISTORY.with_params(schema, job=job)
