"""Names that operators misspell: what nothing is called, and what may have been meant."""

from collections.abc import Iterable

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.domain.job_filter import JobFilter
from holdfast.errors import QueueNotFound
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import operators, schedules
from holdfast.storage.kinds import kinds, known_tags
from holdfast.storage.workers import workers

ADVICE_FOR_MOVE = "pass create=True if workers will serve it later"
_MOST_KINDS = 10_000
_LOOKED_UP = 5
"""So many names of each sort in a filter: more are a list, and not typed."""


def check_queue(schema: Schema, queue: str, named: Iterable[str], advice: str) -> Conversation[None]:
    """QueueNotFound if nothing knows a queue of that name. `named` are those that the app's own code names:
    known, also before their first job.
    """
    own = set(named)
    if queue in own:
        return
    [found] = yield from ask(operators.queue_known(schema, queue))
    if not found.is_known:
        raise QueueNotFound(queue, near=did_you_mean(queue, own.union(found.names)), advice=advice)


def hints_for(schema: Schema, job_filter: JobFilter) -> Conversation[tuple[str, ...]]:
    """Why a filter that matches nothing may do so: sentences about its names that nothing is called."""
    hints: list[str] = []
    if job_filter.kinds:
        known = [row.name for row in (yield from ask(kinds(schema, limit=_MOST_KINDS)))]
        hints += _unknown(job_filter.kinds, known, 'no worker has declared a kind "{name}"')
    for queue in job_filter.queues[:_LOOKED_UP]:
        [found] = yield from ask(operators.queue_known(schema, queue))
        if not found.is_known:
            meant = did_you_mean(queue, found.names)
            hints.append(f'no job, setting, schedule or worker knows the queue "{queue}"{meant}')
    if job_filter.tags:
        tags = yield from ask(known_tags(schema))
        hints += _unknown(job_filter.tags, tags, 'no kind and none of the latest jobs has the tag "{name}"')
    if job_filter.schedules:
        stored = [row.name for row in (yield from ask(schedules.find(schema)))]
        hints += _unknown(job_filter.schedules, stored, 'there is no schedule "{name}" (any more)')
    for worker in job_filter.workers[:_LOOKED_UP]:
        if not (yield from ask(workers(schema, worker=worker, limit=1, runs=1))):
            hints.append(f"there is no worker {worker} (any more)")
    return tuple(hints)


def _unknown(names: Iterable[str], known: list[str], sentence: str) -> list[str]:
    strange = [name for name in names if name not in set(known)][:_LOOKED_UP]
    return [f"{sentence.format(name=name)}{did_you_mean(name, known)}" for name in strange]
