"""Enqueueing: new jobs in batches, unique ones among them, on any connection."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal, NamedTuple, TypeVar

from holdfast.domain.backoff import to_json
from holdfast.domain.job import NewJob, Policy
from holdfast.errors import DuplicateJob
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.arrays import number_array, text_array
from holdfast.storage.statements import bunched, statement

T = TypeVar("T")

OnConflict = Literal["existing", "raise", "replace"]

CHUNK = 1_000
CHUNK_TEXT = 8 * 1024 * 1024
_ROUNDS = 3
_FIELDS: dict[int, tuple[Policy, dict[str, object]]] = {}
_FIELDS_KEPT = 1_000
_SEPARATOR = "\x1e"  # which JSON never holds: in it, control characters are escaped


class Enqueued(NamedTuple):
    """The job that now stands for what was asked, and whether it is a new one."""

    job: int
    is_new: bool = True


_new_tuple = tuple.__new__


def _enqueued(jobs: list[int]) -> list[Enqueued]:
    # As Enqueued(job) does, in a third of its time: they come in thousands.
    return [_new_tuple(Enqueued, (job, True)) for job in jobs]


_ENQUEUE = bunched("enqueue", _enqueued)
_ENQUEUE_ALIKE = bunched("enqueue_alike", _enqueued)
_ENQUEUE_ONE = statement("enqueue_one", Enqueued)
_ENQUEUE_UNIQUE = statement("enqueue_unique", Enqueued)
_REPLACE = statement("replace", int)


def enqueue(
    schema: Schema, jobs: Sequence[NewJob], *, notify: bool, now: datetime | None = None
) -> Statement[Enqueued]:
    """Write a batch; answers in its order. An active job with the same unique key stands for a new one."""
    if _are_alike(jobs):
        fields = _fields(jobs[0].policy)
        if len(jobs) == 1:
            return _ENQUEUE_ONE.with_params(schema, **fields, args=jobs[0].args, notify=notify, now=now)
        return _ENQUEUE_ALIKE.with_params(schema, **fields, args=_joined(jobs), notify=notify, now=now)
    columns = job_columns(jobs)
    if all(job.unique_key is None for job in jobs):
        return _ENQUEUE.with_params(schema, **columns, notify=notify, now=now)
    keys = text_array([job.unique_key for job in jobs])
    return _ENQUEUE_UNIQUE.with_params(schema, **columns, keys=keys, notify=notify, now=now)


def replace(
    schema: Schema, jobs: Sequence[tuple[int, NewJob]], *, notify: bool, now: datetime | None = None
) -> Statement[int]:
    """Give waiting jobs new contents; answers those that still waited."""
    columns = job_columns([new for _, new in jobs])
    return _REPLACE.with_params(
        schema, jobs=number_array(job for job, _ in jobs), **columns, notify=notify, now=now
    )


def enqueue_many(
    schema: Schema,
    jobs: Iterable[NewJob],
    *,
    on_conflict: OnConflict = "existing",
    notify: bool = True,
    now: datetime | None = None,
) -> Conversation[list[Enqueued]]:
    """Write any number of jobs, a chunk at a time: only one chunk is held besides what the caller holds.

    For all or nothing, hold it in a transaction.
    """
    answers: list[Enqueued] = []
    for chunk in _chunks(jobs):
        rows = yield from ask(enqueue(schema, chunk, notify=notify, now=now))
        if on_conflict == "raise":
            _refuse_duplicates(chunk, rows)
        if on_conflict == "replace":
            rows = yield from _replace_existing(schema, chunk, rows, notify=notify, now=now)
        answers += rows
    return answers


def enqueue_chunks(
    schema: Schema, jobs: Iterable[NewJob], *, notify: bool, now: datetime | None = None
) -> Iterator[Statement[Enqueued]]:
    """Statements that together write any number of jobs, each made when it is asked for."""
    for chunk in _chunks(jobs):
        yield enqueue(schema, chunk, notify=notify, now=now)


def _replace_existing(
    schema: Schema, chunk: Sequence[NewJob], rows: list[Enqueued], *, notify: bool, now: datetime | None
) -> Conversation[list[Enqueued]]:
    """Replace what still waits. A holder that ended meanwhile has left its key, so the rest is enqueued
    again; one that runs counts as existing.
    """
    for _ in range(_ROUNDS):
        existing = {row.job: place for place, row in enumerate(rows) if not row.is_new}
        if not existing:
            break
        pairs = [(job, chunk[place]) for job, place in sorted(existing.items())]
        replaced = set((yield from ask(replace(schema, pairs, notify=notify, now=now))))
        left = [place for place, row in enumerate(rows) if not row.is_new and row.job not in replaced]
        if not left:
            break
        again = yield from ask(enqueue(schema, [chunk[place] for place in left], notify=notify, now=now))
        for place, row in zip(left, again, strict=True):
            rows[place] = row
    return rows


def _refuse_duplicates(chunk: Sequence[NewJob], rows: list[Enqueued]) -> None:
    for new, row in zip(chunk, rows, strict=True):
        if not row.is_new:
            raise DuplicateJob(key=new.unique_key or "", queue=new.policy.queue, job=row.job)


def _chunks(jobs: Iterable[NewJob]) -> Iterator[list[NewJob]]:
    """So many jobs or so much text: a statement with a thousand times the largest args is one that Postgres
    refuses.
    """
    everyone = iter(jobs)
    while chunk := list(islice(everyone, CHUNK)):
        if sum([len(job.args) for job in chunk]) <= CHUNK_TEXT:
            yield chunk
        else:
            yield from _small_chunks(chunk)


def _small_chunks(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    chunk: list[NewJob] = []
    size = 0
    for job in jobs:
        if chunk and size + len(job.args) > CHUNK_TEXT:
            yield chunk
            chunk, size = [], 0
        chunk.append(job)
        size += len(job.args)
    yield chunk


def job_columns(jobs: Sequence[NewJob]) -> dict[str, object]:
    """What jobs have in common goes once, as a template that each of them names by its number."""
    numbers: dict[Policy, int] = {}
    # Most batches share one policy object: its identity is a far cheaper key than its contents.
    seen: dict[int, int] = {}
    templates = []
    for job in jobs:
        number = seen.get(id(job.policy))
        if number is None:
            number = seen[id(job.policy)] = numbers.setdefault(job.policy, len(numbers) + 1)
        templates.append(number)
    policies = list(numbers)
    return {
        "templates": number_array(templates),
        "args": _joined(jobs),
        "delays": _unless_empty([job.delay for job in jobs]),
        "run_ats": _unless_empty([job.run_at for job in jobs]),
        "deadlines": _unless_empty([job.deadline_at for job in jobs]),
        "deadlines_in": _unless_empty([job.deadline_in for job in jobs]),
        "kinds": [policy.kind for policy in policies],
        "queues": [policy.queue for policy in policies],
        "priorities": [policy.priority for policy in policies],
        "max_attempts": [policy.max_attempts for policy in policies],
        "backoffs": _unless_empty([to_json(policy.backoff) for policy in policies]),
        "timeouts": _unless_empty([policy.timeout for policy in policies]),
        "keeps": _unless_empty([policy.keep for policy in policies]),
        "on_losts": _unless_empty(
            [None if policy.on_lost == "retry" else policy.on_lost for policy in policies]
        ),
        # Arrays inside an array of text: arrays of arrays must be rectangular, and tags are not.
        "tags": _unless_empty([text_array(policy.tags) for policy in policies]),
        "origins": _unless_empty([policy.origin for policy in policies]),
    }


def _are_alike(jobs: Sequence[NewJob]) -> bool:
    """Whether they are due now and differ only in their args: most jobs share one of a few policy objects."""
    if len(jobs) == 1:
        return jobs[0].is_plain
    return bool(jobs) and all(job.policy is jobs[0].policy and job.is_plain for job in jobs)


def _joined(jobs: Sequence[NewJob]) -> str:
    return _SEPARATOR.join([job.args for job in jobs])


def _fields(policy: Policy) -> dict[str, object]:
    """Of a policy. What was made of one is kept."""
    known = _FIELDS.get(id(policy))
    if known is None or known[0] is not policy:
        if len(_FIELDS) >= _FIELDS_KEPT:
            _FIELDS.clear()
        known = _FIELDS[id(policy)] = (policy, _policy_fields(policy))
    return known[1]


def _policy_fields(policy: Policy) -> dict[str, object]:
    return {
        "kind": policy.kind,
        "queue": policy.queue,
        "priority": policy.priority,
        "max_attempts": policy.max_attempts,
        "backoff": to_json(policy.backoff),
        "timeout": policy.timeout,
        "keep": policy.keep,
        "on_lost": None if policy.on_lost == "retry" else policy.on_lost,
        "tags": text_array(policy.tags),
        "origin": policy.origin,
    }


def _unless_empty(values: list[T | None]) -> list[T | None] | None:
    """None if there is nothing in it: an array that is NULL costs nothing, any other 10 µs in the driver."""
    return values if any(value is not None for value in values) else None
