"""The completion of one run, or of all runs of a batch, inside the transaction in which their handler has
written.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final, Literal, NamedTuple

from holdfast.domain.light_value import LightValue
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.errors import DatabaseError
from holdfast.postgres.schema import Schema
from holdfast.postgres.sqlstate import INVALID_TEXT
from holdfast.postgres.statement import Statement, StatementFile
from holdfast.storage.arrays import number_array, text_array
from holdfast.storage.runs import Answer
from holdfast.storage.statements import statement, with_parts

_REFUSAL: Final = "this run of a Holdfast job has lost its lease"


class RunToComplete(LightValue, frozen=True):
    """One run that has succeeded. `is_plain` is what its claim said: no other row ends with the job, and it
    has no limits.
    """

    worker: int
    job: int
    run: int
    complete: CompleteJob
    is_plain: bool
    is_limited: bool = False

    @property
    def way(self) -> "_Way":
        return "plain" if self.is_plain else "limited" if self.is_limited else "other"


class AllCompleted(NamedTuple):
    """`lost` is the first run that has lost its lease, for which none was completed."""

    answer: Answer
    lost: int | None


def _answer(answer: Answer) -> Answer:
    return answer


_Way = Literal["plain", "limited", "other"]
_OF_LIMITS = ("limits_of_plain", "limits_of_ended", "limits_of_job", "handed_on", "handed_on_told")
_FILES: dict[_Way, StatementFile[Answer]] = {
    "plain": statement("complete_plain", _answer),
    "limited": statement("complete_one", _answer),
    "other": statement("complete_one", _answer, without=(*_OF_LIMITS, "everyone_told")),
}
_ANSWERING = {way: file.filled(otherwise=with_parts("{part unsettled_one}")) for way, file in _FILES.items()}
# SQL has no `raise`. A text that is not a number fails, and the server repeats it in its message, in any
# language. With the time in it, since the planner computes an expression of constants beforehand.
_FAILING = {
    way: file.filled(otherwise=f"else ('{_REFUSAL}, noticed at ' || statement_timestamp())::int::text")
    for way, file in _FILES.items()
}
_ALL = {
    True: statement("complete_all", AllCompleted),
    False: statement("complete_all", AllCompleted, without=(*_OF_LIMITS, "and_everyone_told")),
}
_ALL_ANSWERING = {is_limited: file.filled(refused="'lost'") for is_limited, file in _ALL.items()}
_ALL_FAILING = {
    is_limited: file.filled(
        refused=f"('{_REFUSAL}, run ' || lost.run || ', noticed at ' || statement_timestamp())::int::text"
    )
    for is_limited, file in _ALL.items()
}
_LOST_RUN = re.compile(rf"{_REFUSAL}, run ([0-9]+)")


def complete_one(
    schema: Schema, run: RunToComplete, *, retention: Retention, now: datetime | None = None
) -> Statement[Answer]:
    """End a run with success. The caller rolls back unless the answer is `settled`."""
    return _ANSWERING[run.way].with_params(schema, **_params(run, retention, now))


def complete_one_or_fail(
    schema: Schema, run: RunToComplete, *, retention: Retention, now: datetime | None = None
) -> Statement[Answer]:
    """The same for a commit that is sent along, before the answer is known: unless that is `settled`, the
    statement fails with an error that `is_refused` knows.
    """
    return _FAILING[run.way].with_params(schema, **_params(run, retention, now))


def complete_all(
    schema: Schema, runs: Sequence[RunToComplete], *, retention: Retention, now: datetime | None = None
) -> Statement[AllCompleted]:
    """End these runs with success, all or none. The caller rolls back unless the answer is `settled`."""
    return _ALL_ANSWERING[any(run.is_limited for run in runs)].with_params(
        schema, **_params_of_all(runs, retention, now)
    )


def complete_all_or_fail(
    schema: Schema, runs: Sequence[RunToComplete], *, retention: Retention, now: datetime | None = None
) -> Statement[AllCompleted]:
    """The same for a commit that is sent along: as `complete_one_or_fail`."""
    return _ALL_FAILING[any(run.is_limited for run in runs)].with_params(
        schema, **_params_of_all(runs, retention, now)
    )


def lost_run(error: DatabaseError) -> int | None:
    """The run for which `complete_all_or_fail` failed."""
    found = _LOST_RUN.search(str(error))
    return int(found[1]) if found else None


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
        "front": True,
        "keep_succeeded": retention.succeeded,
        "now": now,
    }


def _params_of_all(
    runs: Sequence[RunToComplete], retention: Retention, now: datetime | None
) -> dict[str, object]:
    runs = sorted(runs, key=attrgetter("run"))
    return {
        "workers": number_array([run.worker for run in runs]),
        "jobs": number_array([run.job for run in runs]),
        "runs": number_array([run.run for run in runs]),
        "results": text_array([run.complete.result for run in runs]),
        "flags": text_array([run.complete.flag for run in runs]),
        "front": True,
        "keep_succeeded": retention.succeeded,
        "now": now,
    }
