"""What the storage engine should do, small enough to be read in one sitting: jobs in a dictionary, each with
the one place it is in. The state machine does everything twice, here and in Postgres, and compares.

Numbers (job ids, runs) are the database's to give: they come in as arguments. So does all luck.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from holdfast.domain.backoff import from_json, to_json
from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob
from holdfast.domain.outcome import Lost
from holdfast.domain.ring import PARKED, segments_without
from holdfast.domain.transition import Cancel, Complete, Fail, Release, Retry, Run, Snooze, Transition, decide
from holdfast.storage.chores import NextDue
from holdfast.storage.runs import TIMEOUT, Retention, Saving, Settled, Settlement
from holdfast.storage.workers import LEASE

GOES_ON = ("retried", "snoozed", "released")
KEEP = Retention()


@dataclass(frozen=True, slots=True)
class Ready:
    attempt: int
    segment: int


@dataclass(frozen=True, slots=True)
class Scheduled:
    attempt: int
    run_at: datetime


@dataclass(frozen=True, slots=True)
class Running:
    attempt: int
    worker: int
    run: int
    started_at: datetime
    timeout_at: datetime
    is_cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    attempt: int
    outcome: str
    keep_until: datetime


Place = Ready | Scheduled | Running | Ended


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the ledger. `run` is None for an ending without a run: nobody was given its number."""

    run: int | None
    outcome: str
    attempt: int
    is_final: bool
    is_taken_away: bool = False


@dataclass(slots=True)
class Job:
    id: int
    new: NewJob
    place: Place
    entries: list[Entry] = field(default_factory=list)

    @property
    def is_active(self) -> bool:
        return not isinstance(self.place, Ended)

    @property
    def is_dead(self) -> bool:
        return isinstance(self.place, Ended) and self.place.outcome == "failed" and self.is_kept

    @property
    def is_kept(self) -> bool:
        """Whether the job's own row is there: one that asks to be forgotten is, as soon as it ends."""
        return self.is_active or self.new.policy.keep != timedelta()

    @property
    def key(self) -> tuple[str, str] | None:
        return (self.new.policy.queue, self.new.unique_key) if self.new.unique_key else None

    def is_before_deadline(self, now: datetime) -> bool:
        return self.new.deadline_at is None or self.new.deadline_at > now


@dataclass(slots=True)
class Worker:
    """`memory` is what the process knows, `is_gone` and `lost_at` what the database does."""

    id: int
    queues: tuple[str, ...]
    kinds: tuple[str, ...]
    expires_at: datetime
    lost_at: datetime | None = None
    is_gone: bool = False
    memory: set[int] = field(default_factory=set)
    closed: int | None = None

    @property
    def is_alive(self) -> bool:
        return self.lost_at is None and not self.is_gone


@dataclass(slots=True)
class RingModel:
    current: int = 0
    version: int = 1
    closed: int | None = None
    closed_until: datetime | None = None

    def closed_at(self, now: datetime) -> int | None:
        return self.closed if self.closed_until is not None and self.closed_until > now else None


class Model:
    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[int, Job] = {}
        self.workers: dict[int, Worker] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.paused: dict[str, datetime | None] = {}
        self.saved: dict[int, str] = {}
        self.tallied: Counter[tuple[datetime, str, str, str]] = Counter()
        self.ring = RingModel()

    # Looking

    def placed(self, *kinds: type[Place]) -> list[Job]:
        return [job for job in self.jobs.values() if isinstance(job.place, kinds)]

    def leases(self, worker: int) -> dict[int, Job]:
        return {
            job.place.run: job
            for job in self.jobs.values()
            if isinstance(job.place, Running) and job.place.worker == worker
        }

    def dead(self) -> list[int]:
        return [job.id for job in self.jobs.values() if job.is_dead]

    def is_paused(self, queue: str) -> bool:
        if queue not in self.paused:
            return False
        until = self.paused[queue]
        return until is None or until > self.now

    def is_served(self, queue: str, kind: str) -> bool:
        return not self.is_paused(queue) and any(
            queue in worker.queues and kind in worker.kinds
            for worker in self.workers.values()
            if worker.is_alive
        )

    def has_work(self, queue: str, kinds: Sequence[str]) -> bool:
        return not self.is_paused(queue) and bool(self.takeable(queue, kinds, None))

    def takeable(self, queue: str, kinds: Sequence[str], closed: int | None) -> list[Job]:
        found = [
            job
            for job in self.placed(Ready)
            if isinstance(job.place, Ready)
            and job.place.segment in segments_without(closed)
            and job.new.policy.queue == queue
            and job.new.policy.kind in kinds
            and job.is_before_deadline(self.now)
        ]
        return sorted(found, key=lambda job: (job.new.policy.priority, job.id))

    def next_due(self) -> NextDue:
        run_ats = [job.place.run_at for job in self.jobs.values() if isinstance(job.place, Scheduled)]
        deadlines = [job.new.deadline_at for job in self.placed(Ready, Scheduled)]
        expiries = [worker.expires_at for worker in self.workers.values() if worker.is_alive]
        return NextDue(self._until(run_ats), self._until(deadlines), self._until(expiries))

    def _until(self, moments: Sequence[datetime | None]) -> timedelta | None:
        first = min((moment for moment in moments if moment is not None), default=None)
        return None if first is None else max(first - self.now, timedelta())

    # Enqueueing

    def holder(self, key: tuple[str, str] | None) -> Job | None:
        """The active job that holds a key; one left behind by a job that has ended is nobody's."""
        job = self.jobs.get(self.keys[key]) if key in self.keys else None
        return job if job and job.is_active else None

    def enqueue(self, id_: int, new: NewJob) -> None:
        assert id_ not in self.jobs, f"{id_} was given twice"
        job = Job(id_, self.counted(new), self.due(0, self.start(new)))
        self.jobs[id_] = job
        if job.key:
            self.keys[job.key] = id_

    def replace(self, job: Job, new: NewJob) -> None:
        """Only what waits is replaced; what runs counts as existing."""
        if isinstance(job.place, Ready | Scheduled):
            job.new, job.place = self.counted(new), self.due(0, self.start(new))
            self.saved.pop(job.id, None)

    def counted(self, new: NewJob) -> NewJob:
        """With a deadline that was given as a length made a time."""
        if new.deadline_in is None:
            return new
        return replace(new, deadline_at=self.now + new.deadline_in, deadline_in=None)

    def start(self, new: NewJob) -> datetime | None:
        return new.run_at if new.delay is None else self.now + new.delay

    def due(self, attempt: int, run_at: datetime | None) -> Place:
        if run_at is not None and run_at > self.now:
            return Scheduled(attempt, run_at)
        return Ready(attempt, self.ring.current)

    # Running

    def claimable(self, worker: int, queue: str, kinds: Sequence[str], limit: int) -> list[int]:
        me = self.workers[worker]
        if not me.is_alive or self.is_paused(queue):
            return []
        return [job.id for job in self.takeable(queue, kinds, me.closed)[:limit]]

    def claim(self, worker: int, job_id: int, run: int) -> None:
        job = self.jobs[job_id]
        assert isinstance(job.place, Ready)
        ends = [self.now + (job.new.policy.timeout or TIMEOUT), job.new.deadline_at]
        job.place = Running(
            job.place.attempt + 1, worker, run, self.now, min(end for end in ends if end is not None)
        )

    def settle(
        self, settlement: Settlement, *, is_hindered: bool = False, by_leader: bool = False
    ) -> Settled:
        """`is_hindered`: somebody has the unique keys locked, so that they stay behind."""
        job, run = self.jobs.get(settlement.job), settlement.run
        if job is None:
            return Settled(settlement.job, run, "lost", None)
        place = job.place
        if not isinstance(place, Running) or (place.worker, place.run) != (settlement.worker, run):
            was_mine = any(entry.run == run and not entry.is_taken_away for entry in job.entries)
            return Settled(job.id, run, "already" if was_mine else "lost", None)
        outcome = outcome_of(settlement.transition)
        if outcome in GOES_ON and place.is_cancel_requested:
            outcome = "cancelled"
        elif outcome in GOES_ON and not job.is_before_deadline(self.now):
            outcome = "expired"
        attempt = place.attempt
        match settlement.transition:
            case Retry(delay) if outcome == "retried":
                job.place = Scheduled(attempt, self.now + delay)
            case Snooze(delay) if outcome == "snoozed":
                job.place = Scheduled(attempt - 1, self.now + delay)
            case Release() if outcome == "released":
                job.place = Ready(attempt - 1, self.ring.current)
            case _:
                self._end(job, outcome, attempt, is_hindered=is_hindered)
        job.entries.append(Entry(run, outcome, attempt, not job.is_active, by_leader))
        self._tally(job, outcome)
        return Settled(job.id, run, "settled", outcome)

    def save(self, saving: Saving) -> bool:
        job = self.jobs.get(saving.job)
        if job is None or saving.run not in self.leases(saving.worker):
            return False
        if saving.state is not None:
            self.saved[job.id] = saving.state
        return True

    def _end(self, job: Job, outcome: str, attempt: int, *, is_hindered: bool = False) -> None:
        usual = {"succeeded": KEEP.succeeded, "failed": KEEP.dead}.get(outcome, KEEP.other)
        keep = usual if job.new.policy.keep is None else job.new.policy.keep
        job.place = Ended(attempt, outcome, self.now + keep)
        if job.key and not is_hindered and self.keys.get(job.key) == job.id:
            del self.keys[job.key]
        if not job.is_kept:
            self.saved.pop(job.id, None)

    def _stop(self, job: Job, outcome: str) -> None:
        """End a job that waits: the ledger has it without a run."""
        attempt = job.place.attempt
        self._end(job, outcome, attempt)
        job.entries.append(Entry(None, outcome, attempt, is_final=True))
        self._tally(job, outcome)

    def _tally(self, job: Job, outcome: str) -> None:
        minute = self.now.replace(second=0, microsecond=0)
        self.tallied[minute, job.new.policy.queue, job.new.policy.kind, outcome] += 1

    # Workers

    def renew(self, worker: int) -> bool:
        me = self.workers[worker]
        if me.is_alive:
            me.expires_at = self.now + LEASE
        return me.is_alive

    def retire(self, worker: int) -> bool:
        me = self.workers[worker]
        me.is_gone = me.is_gone or not self.leases(worker)
        if not me.is_gone:
            me.expires_at = min(me.expires_at, self.now)
        return me.is_gone

    def mark_lost(self) -> list[int]:
        silent = [w for w in self.workers.values() if w.is_alive and w.expires_at < self.now]
        for worker in silent:
            worker.lost_at = self.now
        return [worker.id for worker in silent]

    def forget_lost(self, keep: timedelta) -> list[int]:
        gone = [
            worker
            for worker in self.workers.values()
            if not worker.is_gone and worker.lost_at is not None
            if worker.lost_at + keep < self.now and not self.leases(worker.id)
        ]
        for worker in gone:
            worker.is_gone = True
        return [worker.id for worker in gone]

    # Chores

    def rescue(self, failure: Failure, luck: float, is_lost: Callable[[Running], bool]) -> list[Settled]:
        answers = []
        for job in self.placed(Running):
            if isinstance(job.place, Running) and is_lost(job.place):
                policy, place = job.new.policy, job.place
                stored = from_json(to_json(policy.backoff))
                run = Run(place.attempt, policy.max_attempts, stored, policy.on_lost)
                settlement = Settlement(place.worker, job.id, place.run, decide(run, Lost(failure), luck))
                answers.append(self.settle(settlement, by_leader=True))
        return answers

    def promote(self, since: datetime | None, limit: int) -> tuple[int, datetime | None]:
        due = sorted(
            (job.place.run_at, job.id)
            for job in self.jobs.values()
            if isinstance(job.place, Scheduled) and job.place.run_at <= self.now
            if since is None or job.place.run_at >= since
        )[:limit]
        for _, id_ in due:
            self.jobs[id_].place = Ready(self.jobs[id_].place.attempt, self.ring.current)
        return len(due), due[-1][0] if due else None

    def expire(self) -> int:
        late = [job for job in self.placed(Ready, Scheduled) if not job.is_before_deadline(self.now)]
        for job in late:
            self._stop(job, "expired")
        return len(late)

    def prune(self) -> int:
        old = [
            job.id
            for job in self.jobs.values()
            if isinstance(job.place, Ended) and job.place.keep_until <= self.now
        ]
        self._forget(old)
        return len(old)

    def _forget(self, jobs: Sequence[int]) -> None:
        for id_ in jobs:
            del self.jobs[id_]
            self.saved.pop(id_, None)
        self.keys = {key: holder for key, holder in self.keys.items() if holder not in jobs}

    # Operators

    def cancel(self, id_: int) -> str:
        job = self.jobs.get(id_)
        if job is None:
            return "unknown"
        match job.place:
            case Ended():
                return "final"
            case Running():
                job.place = replace(job.place, is_cancel_requested=True)
                return "requested"
            case Ready() | Scheduled():
                self._stop(job, "cancelled")
                return "cancelled"

    def reprioritise(self, id_: int, priority: int) -> str:
        job = self.jobs.get(id_)
        if job is None:
            return "unknown"
        if not job.is_active:
            return "final"
        job.new = replace(job.new, policy=replace(job.new.policy, priority=priority))
        if isinstance(job.place, Ready) and job.place.segment != PARKED:
            job.place = replace(job.place, segment=self.ring.current)
        return "changed"

    def revive(self, id_: int, *, from_start: bool) -> str:
        job = self.jobs.get(id_)
        if job is None or not job.is_dead:
            return "unknown"
        if self.holder(job.key):
            return "duplicate"
        if job.key:
            self.keys[job.key] = id_
        if from_start:
            self.saved.pop(id_, None)
        attempt = 0 if from_start else min(job.place.attempt, job.new.policy.max_attempts - 1)
        job.place = Ready(attempt, self.ring.current)
        job.entries = [replace(entry, is_final=False) for entry in job.entries]
        return "revived"

    def purge(self, jobs: Sequence[int]) -> int:
        dead = [id_ for id_ in jobs if id_ in self.jobs and self.jobs[id_].is_dead]
        self._forget(dead)
        return len(dead)

    # The ring

    def turn(self, to: int, version: int) -> int | None:
        ring = self.ring
        if version != ring.version or ring.closed == to:
            return None
        ring.current, ring.version = to, ring.version + 1
        return ring.version

    def close(self, segment: int, version: int, length: timedelta) -> int | None:
        ring = self.ring
        another = ring.closed not in (None, segment) and ring.closed_at(self.now) is not None
        if version != ring.version or segment == ring.current or another:
            return None
        ring.closed, ring.closed_until, ring.version = segment, self.now + length, ring.version + 1
        return ring.version

    def reopen(self, segment: int) -> int | None:
        ring = self.ring
        if ring.closed != segment:
            return None
        ring.closed, ring.closed_until, ring.version = None, None, ring.version + 1
        return ring.version

    def is_drained(self, segment: int) -> bool:
        ring = self.ring
        return ring.closed == segment and ring.current != segment and not self.in_segment(segment)

    def gather(self, segment: int, limit: int) -> int:
        rest = self.in_segment(segment)
        if segment == self.ring.current or len(rest) > limit:
            return 0
        return self._move(rest, self.ring.current)

    def park(self, segment: int) -> int:
        if not any(worker.is_alive for worker in self.workers.values()):
            return 0
        stuck = [
            job
            for job in self.in_segment(segment)
            if not self.is_served(job.new.policy.queue, job.new.policy.kind)
        ]
        return self._move(stuck, PARKED)

    def unpark(self) -> int:
        wanted = [
            job
            for job in self.in_segment(PARKED)
            if self.is_served(job.new.policy.queue, job.new.policy.kind)
        ]
        return self._move(wanted, self.ring.current)

    def in_segment(self, segment: int) -> list[Job]:
        return [
            job for job in self.placed(Ready) if isinstance(job.place, Ready) and job.place.segment == segment
        ]

    def _move(self, jobs: list[Job], segment: int) -> int:
        for job in jobs:
            job.place = Ready(job.place.attempt, segment)
        return len(jobs)


def outcome_of(transition: Transition) -> str:
    names: dict[type[Transition], str] = {
        Complete: "succeeded",
        Retry: "retried",
        Snooze: "snoozed",
        Release: "released",
        Fail: "failed",
        Cancel: "cancelled",
    }
    return names[type(transition)]
