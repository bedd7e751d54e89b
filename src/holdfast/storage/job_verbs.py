"""What operators do with jobs that wait or have ended: reschedule them, move them to a queue, delete them."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from holdfast.domain.job import check_ids, check_length, check_name, check_time
from holdfast.errors import InvalidInput
from holdfast.postgres.conversation import Conversation
from holdfast.postgres.schema import Schema
from holdfast.storage.operators import Answered, until_found
from holdfast.storage.statements import statement

_RESCHEDULE = statement("reschedule", Answered)
_MOVE = statement("move", Answered)
_DELETE = statement("delete", Answered)


def reschedule(
    schema: Schema,
    jobs: Sequence[int],
    *,
    run_at: datetime | None = None,
    delay: timedelta | None = None,
    now: datetime | None = None,
) -> Conversation[dict[int, str]]:
    """Answers rescheduled, too_late (its deadline comes first), running, waiting, final, unknown or busy."""
    if (run_at is None) == (delay is None):
        raise InvalidInput("give the time at which the jobs are to run, or a length from now")
    if delay is not None and delay < timedelta():
        raise InvalidInput(f"delay is {delay}: it must not be negative; give 0s to run the jobs now")
    check_time("time", run_at)
    check_length("delay", delay)
    return (
        yield from until_found(
            jobs,
            lambda left: _RESCHEDULE.with_params(schema, jobs=left, run_at=run_at, delay=delay, now=now),
        )
    )


def move(
    schema: Schema, jobs: Sequence[int], *, queue: str, now: datetime | None = None
) -> Conversation[dict[int, str]]:
    """Answers moved, duplicate (another job holds its unique key there), running, waiting, final, unknown or
    busy.

    Unique keys are taken in order by the first statement; asked again, it takes none, as for dead jobs.
    """
    check_name("queue", queue)
    check_ids(jobs)
    everyone = len(set(jobs))
    return (
        yield from until_found(
            jobs,
            lambda left: _MOVE.with_params(
                schema, jobs=left, queue=queue, with_keys=len(left) == everyone, now=now
            ),
        )
    )


def delete(schema: Schema, jobs: Sequence[int], *, with_waiting: bool = True) -> Conversation[dict[int, str]]:
    """Answers deleted, awaited (a flow waits for it), running, waiting, unknown or busy. Without
    `with_waiting`, a job that waits for its turn stays, and is active.
    """
    return (
        yield from until_found(
            jobs, lambda left: _DELETE.with_params(schema, jobs=left, with_waiting=with_waiting)
        )
    )
