"""The completion of one run, inside the transaction in which its handler has written."""

from datetime import datetime
from typing import Final

from holdfast.domain.light_value import LightValue
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.errors import DatabaseError
from holdfast.postgres.schema import Schema
from holdfast.postgres.sqlstate import INVALID_TEXT
from holdfast.postgres.statement import Statement
from holdfast.storage.runs import Answer
from holdfast.storage.statements import statement, with_parts

_REFUSAL: Final = "this run of a Holdfast job has lost its lease"


class RunToComplete(LightValue, frozen=True):
    """One run that has succeeded. `is_plain` is what its claim said: no other row ends with the job."""

    worker: int
    job: int
    run: int
    complete: CompleteJob
    is_plain: bool


def _answer(answer: Answer) -> Answer:
    return answer


_FILE = statement("complete_one", _answer)
_FORGOTTEN = {True: "", False: with_parts("{part freed_and_forgotten jobs=forgettable}, ")}
_ANSWERING = {
    is_plain: _FILE.filled(forgotten=text, otherwise=with_parts("{part unsettled_one}"))
    for is_plain, text in _FORGOTTEN.items()
}
# SQL has no `raise`. A text that is not a number fails, and the server repeats it in its message, in any
# language. Read from a table, since the planner computes an expression of constants beforehand.
_FAILING = {
    is_plain: _FILE.filled(
        forgotten=text,
        otherwise=f"else (select '{_REFUSAL}, noticed at ' || now from clock)::int::text",  # noqa: S608  # a constant
    )
    for is_plain, text in _FORGOTTEN.items()
}


def complete_one(
    schema: Schema, run: RunToComplete, *, retention: Retention, now: datetime | None = None
) -> Statement[Answer]:
    """End a run with success. The caller rolls back unless the answer is `settled`."""
    return _ANSWERING[run.is_plain].with_params(schema, **_params(run, retention, now))


def complete_one_or_fail(
    schema: Schema, run: RunToComplete, *, retention: Retention, now: datetime | None = None
) -> Statement[Answer]:
    """The same for a commit that is sent along, before the answer is known: unless that is `settled`, the
    statement fails with an error that `is_refused` knows.
    """
    return _FAILING[run.is_plain].with_params(schema, **_params(run, retention, now))


def is_refused(error: DatabaseError) -> bool:
    """Whether `complete_one_or_fail` failed because the run has lost its lease."""
    return error.sqlstate == INVALID_TEXT and _REFUSAL in str(error)


def _params(run: RunToComplete, retention: Retention, now: datetime | None) -> dict[str, object]:
    return {
        "worker": run.worker,
        "job": run.job,
        "run": run.run,
        "result": run.complete.result,
        "flag": run.complete.flag,
        "keep_succeeded": retention.succeeded,
        "now": now,
    }
