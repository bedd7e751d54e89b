"""What operators do: cancel, reprioritise, pause and resume queues, look after dead letters."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from holdfast.domain.failure import MESSAGE_LIMIT, Failure, storable
from holdfast.domain.job import (
    check_ids,
    check_length,
    check_limit,
    check_name,
    check_priority,
    check_text,
    check_time,
)
from holdfast.domain.outcome import ON_REQUEST
from holdfast.domain.retention import Retention
from holdfast.errors import InvalidInput
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement

_ASKS = 5
NOTE_LIMIT = 1_000
QUEUE_CAP = 10_000


class Answered(NamedTuple):
    """What a verb did with one job."""

    job: int
    answer: str


class CancelAnswer(NamedTuple):
    """What cancelling did with one job; kind and queue of one that waited, and has ended by it."""

    job: int
    answer: str
    kind: str | None
    queue: str | None


class Paused(NamedTuple):
    queue: str
    at: datetime
    until: datetime | None
    note: str | None


class QueueRow(NamedTuple):
    queue: str
    workers: int
    paused_at: datetime | None
    paused_until: datetime | None
    note: str | None
    waiting: int
    running: int
    oldest_age: timedelta | None
    oldest_wait: timedelta | None
    pause_left: timedelta | None


class QueueKnown(NamedTuple):
    is_known: bool
    names: list[str]


_CANCEL = statement("cancel", CancelAnswer)
_PLACE_LOST = statement("place_lost", int)
_REPRIORITISE = statement("reprioritise", Answered)
_PAUSE = statement("pause", Paused)
_RESUME = statement("resume", str)
_QUEUE_LIST = statement("queue_list", QueueRow, is_repeatable=True)
_QUEUE_KNOWN = statement("queue_known", QueueKnown, is_repeatable=True)
_DEAD_TO_READY = statement("dead_to_ready", Answered)


def cancel(
    schema: Schema,
    jobs: Sequence[int],
    *,
    retention: Retention,
    reason: str = ON_REQUEST,
    on_ended: Callable[[list[CancelAnswer]], None] | None = None,
    now: datetime | None = None,
) -> Conversation[dict[int, str]]:
    """End what waits, ask what runs to end. Answers cancelled, requested, final, unknown or busy. `on_ended`
    is told of those that waited.

    A job that is in no table, since its row was deleted by hand, is ended too.
    """
    check_text("reason", reason)
    error = Failure(reason, "cancelled").to_json()
    told = storable(reason)[:MESSAGE_LIMIT]

    def cancelling(left: list[int]) -> Statement[CancelAnswer]:
        return _CANCEL.with_params(
            schema, jobs=left, keep_other=retention.other, error=error, reason=told, now=now
        )

    answers = yield from until_found(jobs, cancelling, on_ended)
    busy = sorted(job for job, answer in answers.items() if answer == "busy")
    if busy:
        lost = yield from ask(place_lost(schema, busy, now=now))
        answers |= yield from until_found(lost, cancelling, on_ended)
    return answers


def place_lost(schema: Schema, jobs: Sequence[int], *, now: datetime | None = None) -> Statement[int]:
    """Give jobs that are nowhere a place again, among those scheduled for a hundred years from now."""
    return _PLACE_LOST.with_params(schema, jobs=list(jobs), now=now)


def reprioritise(schema: Schema, jobs: Sequence[int], *, priority: int) -> Conversation[dict[int, str]]:
    """Answers changed, final, unknown or busy."""
    check_priority(priority)
    return (
        yield from until_found(
            jobs, lambda left: _REPRIORITISE.with_params(schema, jobs=left, priority=priority)
        )
    )


def resume_dead(
    schema: Schema, jobs: Sequence[int], *, now: datetime | None = None
) -> Conversation[dict[int, str]]:
    """Give dead jobs one more attempt, counted on from where they stopped, with what they saved.

    Answers resumed, duplicate, unknown or busy.
    """
    return (yield from _to_ready(schema, jobs, from_start=False, fresh=False, now=now))


def retry_dead(
    schema: Schema, jobs: Sequence[int], *, now: datetime | None = None
) -> Conversation[dict[int, str]]:
    """Let dead jobs begin again, with all attempts and nothing saved.

    Answers retried, duplicate, unknown or busy.
    """
    return (yield from _to_ready(schema, jobs, from_start=True, fresh=True, now=now))


def refresh_dead(
    schema: Schema, jobs: Sequence[int], *, now: datetime | None = None
) -> Conversation[dict[int, str]]:
    """Let dead jobs go on with what they saved and all attempts.

    Answers retried, duplicate, unknown or busy.
    """
    return (yield from _to_ready(schema, jobs, from_start=False, fresh=True, now=now))


def _to_ready(
    schema: Schema, jobs: Sequence[int], *, from_start: bool, fresh: bool, now: datetime | None
) -> Conversation[dict[int, str]]:
    """Unique keys are taken in order by one statement. Asked again for some of the jobs in the same
    transaction, it takes none: it would wait out of that order for a transaction that waits for us.
    """
    check_ids(jobs)
    everyone = len(set(jobs))
    return (
        yield from until_found(
            jobs,
            lambda left: _DEAD_TO_READY.with_params(
                schema,
                jobs=left,
                from_start=from_start,
                fresh=fresh,
                with_keys=len(left) == everyone,
                now=now,
            ),
        )
    )


Row = TypeVar("Row", Answered, CancelAnswer)


def until_found(
    jobs: Sequence[int],
    statement_for: Callable[[list[int]], Statement[Row]],
    on_ended: Callable[[list[Row]], None] | None = None,
) -> Conversation[dict[int, str]]:
    """A job that is nowhere and not final was moving between two places while we looked: look again."""
    check_ids(jobs)
    answers: dict[int, str] = {}
    left = sorted(set(jobs))
    for _ in range(_ASKS):
        if not left:
            break
        rows = yield from ask(statement_for(left))
        if on_ended is not None:
            on_ended([row for row in rows if row.answer == "cancelled"])
        answers.update((row.job, "busy" if row.answer == "moving" else row.answer) for row in rows)
        left = [row.job for row in rows if row.answer == "moving"]
    return answers


def pause(
    schema: Schema,
    *,
    queue: str,
    note: str | None = None,
    until: datetime | None = None,
    length: timedelta | None = None,
    now: datetime | None = None,
) -> Statement[Paused]:
    """Stop claims from a queue: until resumed, until a time or for a length; no row if that has passed."""
    check_name("queue", queue)
    asked = pause_params("queue", note=note, until=until, length=length)
    return _PAUSE.with_params(schema, queue=queue, now=now, **asked)


def pause_params(
    what: str, *, note: str | None, until: datetime | None, length: timedelta | None
) -> dict[str, Any]:
    """How long and why something is paused, checked: for a queue, or for a schedule."""
    if note is not None:
        check_text("note", note)
    check_time("time", until)
    check_length("length", length)
    if length is not None and length <= timedelta():
        raise InvalidInput(f"length is {length}: give how long the {what} is to be paused")
    if until is not None and length is not None:
        raise InvalidInput("give a time or a length, not both")
    return {"note": storable(note)[:NOTE_LIMIT] if note else None, "until": until, "length": length}


def resume(schema: Schema, *, queue: str, now: datetime | None = None) -> Statement[str]:
    """Let claims take from a queue again; answers it if it was paused."""
    check_name("queue", queue)
    return _RESUME.with_params(schema, queue=queue, now=now)


def queues(
    schema: Schema,
    *,
    name: str | None = None,
    after: str | None = None,
    limit: int = 1_000,
    cap: int = QUEUE_CAP + 1,
    now: datetime | None = None,
) -> Statement[QueueRow]:
    """A page of the queues that are paused, are served or have jobs, by name; or one of them. Waiting jobs
    are counted up to `cap`.
    """
    for given in (name, after):
        if given is not None:
            check_name("queue", given)
    check_limit(limit)
    return _QUEUE_LIST.with_params(schema, name=name, after=after, limit=limit, cap=cap, now=now)


def queue_known(schema: Schema, queue: str, *, searched: int = 10_000) -> Statement[QueueKnown]:
    """Whether a setting, worker, schedule or job knows a queue, and the names of others."""
    check_name("queue", queue)
    return _QUEUE_KNOWN.with_params(schema, queue=queue, searched=searched)
