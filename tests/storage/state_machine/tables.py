"""Everything that the tables hold, read past the statements under test and in the model's words."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

from holdfast.domain.states import RunOutcome
from storage.state_machine.job_places import Ended, Entry, Place, Ready, Running, Scheduled

Minute = tuple[datetime, str, str, str]  # of a queue, a kind and an outcome

_EMPTIED = (
    *("job", "scheduled", "worker", "lease", "ledger", "dead", "saved", "unique_key", "queue"),
    *("tally", "counter", "notice"),
)
_QUESTIONS = {
    "job": """
        select id, kind, queue, priority, max_attempts, args, unique_key, deadline_at,
               coalesce(on_lost, 'retry'), keep, timeout, backoff, coalesce(tags, '{}')
          from holdfast.job""",
    "ready": "select job, attempt, segment, queue, kind, priority, deadline_at from holdfast.ready",
    "scheduled": "select job, attempt, run_at, deadline_at from holdfast.scheduled",
    "lease": """
        select job, attempt, worker, run, started_at, timeout_at, cancel_requested_at is not null
          from holdfast.lease""",
    "ledger": """
        select job, run, outcome::text, attempt, is_final, keep_until, started_at, error ->> 'code'
          from holdfast.ledger
         order by job, run""",
    "dead": "select job from holdfast.dead order by job",
    "unique_key": "select queue, key, job from holdfast.unique_key",
    "saved": "select job, state from holdfast.saved",
    "tally": """
        select minute, queue, kind, outcome::text, runs from holdfast.tally
         union all select minute, queue, kind, outcome::text, runs from holdfast.counter""",
    "jobs": "select id, state, attempt from holdfast.jobs",
    "worker": "select id, expires_at, lost_at from holdfast.worker",
    "notice": "select job, outcome::text, attempt from holdfast.notice",
    "ring": "select current, version, closed, closed_until from holdfast.ring",
}


@dataclass(frozen=True, slots=True)
class JobRow:
    kind: str
    queue: str
    priority: int
    max_attempts: int
    args: dict[str, object]
    unique_key: str | None
    deadline_at: datetime | None
    on_lost: str
    keep: timedelta | None
    timeout: timedelta | None
    backoff: object
    tags: list[str]


@dataclass(frozen=True, slots=True)
class Tables:
    """`moving` is what the narrow rows repeat of a job: (queue, kind, priority, deadline) or (deadline,)."""

    jobs: dict[int, JobRow]
    places: dict[int, list[Place]]
    moving: dict[int, tuple[object, ...]]
    entries: dict[int, list[Entry]]
    runs: Counter[int]
    dead: list[int]
    keys: dict[tuple[str, str], int]
    saved: dict[int, dict[str, object]]
    tallied: Counter[Minute]
    view: dict[int, tuple[str, int]]
    workers: dict[int, tuple[datetime, datetime | None]]
    ring: tuple[int, int, int | None, datetime | None]
    notices: Counter[tuple[int, str, int]]

    @classmethod
    def read(cls, connection: psycopg.Connection[Any]) -> "Tables":
        with connection.pipeline():
            cursors = {name: connection.execute(text) for name, text in _QUESTIONS.items()}
        rows = {name: cursor.fetchall() for name, cursor in cursors.items()}
        places: defaultdict[int, list[Place]] = defaultdict(list)
        entries: defaultdict[int, list[Entry]] = defaultdict(list)
        runs: Counter[int] = Counter()
        for job, attempt, segment, *_ in rows["ready"]:
            places[job].append(Ready(attempt, segment))
        for job, attempt, run_at, _ in rows["scheduled"]:
            places[job].append(Scheduled(attempt, run_at))
        for job, *columns in rows["lease"]:
            place = Running(*columns)
            places[job].append(place)
            runs[place.run] += 1
        for job, run, outcome, attempt, is_final, keep_until, started_at, code in rows["ledger"]:
            is_taken_away = code in ("lease_lost", "stale_timeout")
            entries[job].append(Entry(run if started_at else None, outcome, attempt, is_final, is_taken_away))
            runs[run] += 1
            if is_final:
                places[job].append(Ended(attempt, outcome, keep_until))
        tallied: Counter[Minute] = Counter()
        for *counter, count in rows["tally"]:
            tallied[_minute(*counter)] += count
        [ring] = rows["ring"]
        return cls(
            jobs={job: JobRow(*columns) for job, *columns in rows["job"]},
            places=dict(places),
            moving={job: tuple(rest) for job, _, _, *rest in [*rows["ready"], *rows["scheduled"]]},
            entries=dict(entries),
            runs=runs,
            dead=[job for (job,) in rows["dead"]],
            keys={(queue, key): job for queue, key, job in rows["unique_key"]},
            saved=dict(rows["saved"]),
            tallied=tallied,
            view={job: (state, attempt) for job, state, attempt in rows["jobs"]},
            workers={id_: (expires_at, lost_at) for id_, expires_at, lost_at in rows["worker"]},
            ring=(ring[0], ring[1], ring[2], ring[3]),
            notices=Counter((job, outcome, attempt) for job, outcome, attempt in rows["notice"]),
        )


def _minute(minute: datetime, queue: str, kind: str, outcome: RunOutcome) -> Minute:
    return (minute, queue, kind, outcome)


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Keep autovacuum from changing sizes that the ring is turned by: same steps, same answers."""
    names = [f"ready_{name}" for name in ("0", "1", "2", "3", "parked")]
    for name in names:
        connection.execute(f"alter table holdfast.{name} set (autovacuum_enabled = off)")


def clear(connection: psycopg.Connection[Any], now: datetime) -> None:
    """As freshly migrated, sequences included. Only what the ring is turned by, sizes, needs a truncate: to
    delete the few rows of the other tables is far cheaper, and another database dearer than both.
    """
    with connection.pipeline():
        connection.execute("truncate holdfast.ready")
        for table in _EMPTIED:
            connection.execute(f"delete from holdfast.{table}")
        for sequence in ("job_id_seq", "worker_id_seq", "run"):
            connection.execute(f"select setval('holdfast.{sequence}', 1, false)")
        connection.execute(
            "update holdfast.ring"
            "   set current = 0, version = 1, turned_at = %s, closed = null, closed_until = null",
            [now],
        )
