"""Enqueueing: new jobs in batches, unique ones among them, on any connection."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import NamedTuple, TypeVar

from holdfast.domain.backoff import to_json
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.uniqueness import OnConflict
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement, StatementFile
from holdfast.storage.arrays import number_array, text_array
from holdfast.storage.conflicts import Conflicts
from holdfast.storage.statements import bunched, statement

T = TypeVar("T")

CHUNK = 1_000
CHUNK_TEXT = 8 * 1024 * 1024
_FIELDS: dict[int, tuple[Policy, dict[str, object]]] = {}
_FIELDS_KEPT = 1_000
_SEPARATOR = "\x1e"  # which JSON never holds: in it, control characters are escaped


class Enqueued(NamedTuple):
    """The job that now stands for what was asked, and whether it is a new one."""

    job: int
    is_new: bool = True


class Burst(NamedTuple):
    """A debounced job that has not begun, and since when it has been put off."""

    job: int
    since: datetime


_new_tuple = tuple.__new__


def _enqueued(jobs: list[int]) -> list[Enqueued]:
    # As Enqueued(job) does, in a third of its time: they come in thousands.
    return [_new_tuple(Enqueued, (job, True)) for job in jobs]


class _Files(NamedTuple):
    """Of batches of jobs: that are alike, that are not, and of which some have a unique key."""

    alike: StatementFile[Enqueued]
    any: StatementFile[Enqueued]
    unique: StatementFile[Enqueued]


_ENQUEUE_ONE = statement("enqueue_one", Enqueued)
_ENQUEUE_LIMITED = bunched("enqueue_limited", _enqueued)
_ENQUEUES = _Files(
    bunched("enqueue_alike", _enqueued, without=("joined_members",)),
    bunched("enqueue", _enqueued, without=("joined_members",)),
    statement("enqueue_unique", Enqueued, without=("joined_members",)),
)
_JOINS = _Files(
    bunched("enqueue_alike", _enqueued),
    bunched("enqueue", _enqueued),
    statement("enqueue_unique", Enqueued),
)
_BURST = statement("burst", Burst, is_repeatable=True)
_SUPERSEDE = statement("supersede", int, is_repeatable=True)
_REPLACE = statement("replace", int)


class Membership(NamedTuple):
    """The group that jobs are members of, and their places in it."""

    group: int
    places: Sequence[int]


def enqueue(
    schema: Schema,
    jobs: Sequence[NewJob],
    *,
    notify: bool,
    members: Membership | None = None,
    taken_from: Mapping[int, datetime | None] | None = None,
    now: datetime | None = None,
) -> Statement[Enqueued]:
    """Write a batch; answers in its order. An active job with the same unique key stands for a new one, but
    for those in `taken_from`: from these, one for each new job and with the time since which it is put off,
    the keys are taken over. `members`: as members of a group.
    """
    belonging: dict[str, object] = {"parent": None}
    if members is None:
        files = _ENQUEUES
    else:
        files = _JOINS
        belonging = {"parent": members.group, "places": number_array(members.places)}
    if _are_alike(jobs):
        fields = _fields(jobs[0].policy)
        if len(jobs) == 1 and members is None:
            return _ENQUEUE_ONE.with_params(schema, **fields, args=jobs[0].args, notify=notify, now=now)
        return files.alike.with_params(
            schema, **fields, args=_joined(jobs), **belonging, notify=notify, now=now
        )
    if members is None and _are_alike_but_for_keys(jobs):
        return _enqueue_limited(schema, jobs, notify=notify, now=now)
    columns = job_columns(jobs)
    if all(job.unique_key is None and not job.limits for job in jobs):
        return files.any.with_params(schema, **columns, **belonging, notify=notify, now=now)
    keys = _unique_columns(jobs, taken_from)
    return files.unique.with_params(schema, **columns, **keys, **belonging, notify=notify, now=now)


def bursts(schema: Schema, jobs: Iterable[int]) -> Statement[Burst]:
    """Since when these debounced jobs have been put off, if they have not begun."""
    return _BURST.with_params(schema, jobs=number_array(jobs))


def supersede(schema: Schema, jobs: Mapping[int, int]) -> Statement[int]:
    """Remember that these jobs must not run again, with the newer ones that have their unique keys."""
    return _SUPERSEDE.with_params(schema, jobs=number_array(jobs), by=number_array(jobs.values()))


def _enqueue_limited(
    schema: Schema, jobs: Sequence[NewJob], *, notify: bool, now: datetime | None
) -> Statement[Enqueued]:
    is_passing_two = len(jobs[0].limits) > 1
    return _ENQUEUE_LIMITED.with_params(
        schema,
        **_fields(jobs[0].policy),
        args=_joined(jobs),
        limits=text_array([use.limit for use in jobs[0].limits]),
        keys=text_array([job.limits[0].key for job in jobs]),
        next_keys=text_array([job.limits[1].key for job in jobs]) if is_passing_two else None,
        notify=notify,
        now=now,
    )


def replace(
    schema: Schema, jobs: Sequence[tuple[int, NewJob]], *, notify: bool, now: datetime | None = None
) -> Statement[int]:
    """Give waiting jobs new contents; answers those that still waited."""
    news = [new for _, new in jobs]
    return _REPLACE.with_params(
        schema,
        jobs=number_array(job for job, _ in jobs),
        **job_columns(news),
        **_key_columns(news),
        notify=notify,
        now=now,
    )


def enqueue_many(
    schema: Schema,
    jobs: Iterable[NewJob],
    *,
    on_conflict: OnConflict = "existing",
    notify: bool = True,
    group: int | None = None,
    now: datetime | None = None,
) -> Conversation[list[Enqueued]]:
    """Write any number of jobs, a chunk at a time: only one chunk is held besides what the caller holds. If a
    key is taken, `on_conflict` says what happens; for a debounced job, its debounce does. `group`: as the
    members of this group, none of which is debounced.

    For all or nothing, hold it in a transaction.
    """
    answers: list[Enqueued] = []
    for chunk in _chunks(jobs):
        writing = _Writing(schema, len(answers), group, notify=notify, now=now)
        rows = yield from ask(writing.of(chunk))
        conflicts = Conflicts(chunk, rows, writing)
        if on_conflict == "raise":
            conflicts.refuse()
        if on_conflict == "replace":
            yield from conflicts.replace_existing()
        yield from conflicts.debounce()
        answers += rows
    return answers


@dataclass(frozen=True, slots=True)
class _Writing:
    """How a chunk is written, of which the first job is number `first` of all."""

    schema: Schema
    first: int
    group: int | None
    notify: bool
    now: datetime | None

    def of(
        self,
        chunk: Sequence[NewJob],
        numbers: Sequence[int] | None = None,
        *,
        taken_from: Mapping[int, datetime | None] | None = None,
    ) -> Statement[Enqueued]:
        """All of the chunk, or of it the jobs with these `numbers`."""
        members = None
        if self.group is not None:
            places = [self.first + number for number in numbers or range(len(chunk))]
            members = Membership(self.group, places)
        return enqueue(
            self.schema, chunk, notify=self.notify, members=members, taken_from=taken_from, now=self.now
        )

    def in_place_of(self, jobs: Sequence[tuple[int, NewJob]]) -> Statement[int]:
        return replace(self.schema, jobs, notify=self.notify, now=self.now)

    def bursts(self, jobs: Iterable[int]) -> Statement[Burst]:
        return bursts(self.schema, jobs)

    def superseding(self, jobs: Mapping[int, int]) -> Statement[int]:
        return supersede(self.schema, jobs)


def enqueue_chunks(
    schema: Schema, jobs: Iterable[NewJob], *, notify: bool, now: datetime | None = None
) -> Iterator[Statement[Enqueued]]:
    """Statements that together write any number of jobs, each made when it is asked for."""
    for chunk in _chunks(jobs):
        yield enqueue(schema, chunk, notify=notify, now=now)


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
        **_limit_columns(jobs),
    }


def _unique_columns(
    jobs: Sequence[NewJob], taken_from: Mapping[int, datetime | None] | None
) -> dict[str, object]:
    return {
        **_key_columns(jobs),
        "unique_fors": _unless_empty([job.unique_for for job in jobs]),
        "taken_from": number_array(taken_from) if taken_from else None,
        "sinces": list(taken_from.values()) if taken_from else None,
    }


def _key_columns(jobs: Sequence[NewJob]) -> dict[str, object]:
    return {
        "keys": text_array([job.unique_key for job in jobs]),
        "debounces": _unless_empty([job.debounce for job in jobs]),
        "max_waits": _unless_empty([job.max_wait for job in jobs]),
    }


def _are_alike(jobs: Sequence[NewJob]) -> bool:
    """Whether they are due now and differ only in their args: most jobs share one of a few policy objects."""
    if len(jobs) == 1:
        return jobs[0].is_plain
    return bool(jobs) and all(job.policy is jobs[0].policy and job.is_plain for job in jobs)


def _are_alike_but_for_keys(jobs: Sequence[NewJob]) -> bool:
    """Whether they have the same limits, and differ otherwise only in their args."""
    if not jobs or not jobs[0].limits:
        return False
    policy, names = jobs[0].policy, [use.limit for use in jobs[0].limits]
    return all(
        job.policy is policy
        and (job.unique_key or job.delay or job.run_at or job.deadline_at or job.deadline_in) is None
        and [use.limit for use in job.limits if use.cost == 1] == names
        for job in jobs
    )


def _limit_columns(jobs: Sequence[NewJob]) -> dict[str, object]:
    """One element for each job, as the text of an array; None as a whole if none of them has limits."""
    if not any(job.limits for job in jobs):
        return {"limits": None, "limit_keys": None, "limit_costs": None}
    return {
        "limits": [text_array([use.limit for use in job.limits]) for job in jobs],
        "limit_keys": [text_array([use.key for use in job.limits]) for job in jobs],
        "limit_costs": [
            number_array([use.cost for use in job.limits])
            if any(use.cost != 1 for use in job.limits)
            else None
            for job in jobs
        ],
    }


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
