"""The invariants: what must be true of the tables after every step, and equal to the model."""

import json
from collections.abc import Sequence

from holdfast.domain.backoff import to_json
from storage.state_machine.job_places import Ended, Job, Place, Ready, Running, Scheduled
from storage.state_machine.model import Model
from storage.state_machine.tables import JobRow, Tables


def check(tables: Tables, model: Model, claims: Sequence[tuple[int, int, int]]) -> None:
    check_places(tables, model)
    check_ledger(tables, model, claims)
    check_keys(tables, model)
    assert tables.tallied == model.tallied
    assert tables.notices == model.notices
    assert tables.saved == {job: json.loads(state) for job, state in model.saved.items()}
    assert tables.ring == (
        model.ring.current,
        model.ring.version,
        model.ring.closed,
        model.ring.closed_until,
    )
    assert tables.workers == {
        worker.id: (worker.expires_at, worker.lost_at)
        for worker in model.workers.values()
        if not worker.is_gone
    }


def check_places(tables: Tables, model: Model) -> None:
    """Each job is in exactly one place, the model's, and everything that repeats it agrees."""
    assert tables.places == {job.id: [job.place] for job in model.jobs.values()}
    assert tables.jobs == {job.id: row_of(job) for job in model.jobs.values() if job.is_kept}
    assert tables.view == {
        job.id: (state_of(job.place), job.place.attempt) for job in model.jobs.values() if job.is_kept
    }
    assert tables.dead == sorted(model.dead())
    for id_, repeated in tables.moving.items():
        row = tables.jobs[id_]
        whole = (row.queue, row.kind, row.priority, row.deadline_at)
        assert repeated in (whole, whole[-1:])
    for id_, places in tables.places.items():
        if isinstance(places[0], Running):
            assert places[0].attempt <= tables.jobs[id_].max_attempts, f"job {id_} had too many attempts"


def check_ledger(tables: Tables, model: Model, claims: Sequence[tuple[int, int, int]]) -> None:
    """Every run that was ever claimed is in lease or in the ledger, once, until its job is forgotten."""
    assert tables.entries == {job.id: job.entries for job in model.jobs.values() if job.entries}
    for _, job, run in claims:
        assert tables.runs[run] == (job in model.jobs), f"run {run} of job {job}"


def check_keys(tables: Tables, model: Model) -> None:
    """An active job holds its key. A key of an ended job was locked when the job ended."""
    assert tables.keys == model.keys
    for job in model.jobs.values():
        if job.is_active and job.key:
            assert tables.keys[job.key] == job.id


def row_of(job: Job) -> JobRow:
    new, policy = job.new, job.new.policy
    return JobRow(
        policy.kind,
        policy.queue,
        policy.priority,
        policy.max_attempts,
        json.loads(new.args),
        new.unique_key,
        new.deadline_at,
        policy.on_lost,
        policy.keep,
        policy.timeout,
        json.loads(to_json(policy.backoff) or "null"),
        list(policy.tags),
    )


def state_of(place: Place) -> str:
    match place:
        case Ready():
            return "ready"
        case Scheduled():
            return "scheduled"
        case Running():
            return "running"
        case Ended(_, outcome):
            return outcome
