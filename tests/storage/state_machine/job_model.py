"""The model of what happens to jobs: they are enqueued, claimed, saved, settled and come to an end."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import structs

from holdfast.domain.job import NewJob
from holdfast.domain.retention import Retention
from holdfast.domain.ring import segments_without
from holdfast.domain.states import RunOutcome
from holdfast.domain.transition import (
    CancelJob,
    CompleteJob,
    FailJob,
    ReleaseJob,
    RetryJob,
    SnoozeJob,
    Transition,
)
from holdfast.storage.chores import NextDue
from holdfast.storage.runs import TIMEOUT, Saving, Settled, Settlement
from storage.state_machine.job_places import (
    Ended,
    Entry,
    Job,
    Place,
    Ready,
    RingModel,
    Running,
    Scheduled,
    Worker,
)

GOES_ON = ("retried", "snoozed", "released")
KEEP = Retention()


class Lives:
    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[int, Job] = {}
        self.workers: dict[int, Worker] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.paused: dict[str, datetime | None] = {}
        self.saved: dict[int, str] = {}
        self.tallied: Counter[tuple[datetime, str, str, str]] = Counter()
        self.ring = RingModel()
        self.notices: Counter[tuple[int, str, int]] = Counter()

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
        return NextDue(self._until(run_ats), self._until(deadlines))

    def _until(self, moments: Sequence[datetime | None]) -> timedelta | None:
        first = min((moment for moment in moments if moment is not None), default=None)
        return None if first is None else max(first - self.now, timedelta())

    def holder(self, key: tuple[str, str] | None) -> Job | None:
        """The active job that holds a key; a key left behind by a job that has ended has no holder."""
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
        return structs.replace(new, deadline_at=self.now + new.deadline_in, deadline_in=None)

    def start(self, new: NewJob) -> datetime | None:
        return new.run_at if new.delay is None else self.now + new.delay

    def due(self, attempt: int, run_at: datetime | None) -> Place:
        if run_at is not None and run_at > self.now:
            return Scheduled(attempt, run_at)
        return Ready(attempt, self.ring.current)

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
        """`is_hindered`: another session has locked the unique keys, so that they stay behind."""
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
            case RetryJob(delay) if outcome == "retried":
                job.place = Scheduled(attempt, self.now + delay)
            case SnoozeJob(delay) if outcome == "snoozed":
                job.place = Scheduled(attempt - 1, self.now + delay)
            case ReleaseJob() if outcome == "released":
                job.place = Ready(attempt - 1, self.ring.current)
            case _:
                self._end(job, outcome, attempt, is_hindered=is_hindered)
        job.entries.append(Entry(run, outcome, attempt, not job.is_active, by_leader))
        self._tally(job, outcome)
        if by_leader:
            self._notice(job, outcome, attempt)
        return Settled(job.id, run, "settled", outcome)

    def save(self, saving: Saving) -> bool:
        job = self.jobs.get(saving.job)
        if job is None or saving.run not in self.leases(saving.worker):
            return False
        if saving.state is not None:
            self.saved[job.id] = saving.state
        return True

    def _end(self, job: Job, outcome: RunOutcome, attempt: int, *, is_hindered: bool = False) -> None:
        usual = {"succeeded": KEEP.succeeded, "failed": KEEP.dead}.get(outcome, KEEP.other)
        keep = usual if job.new.policy.keep is None else job.new.policy.keep
        job.place = Ended(attempt, outcome, self.now + keep)
        if job.key and not is_hindered and self.keys.get(job.key) == job.id:
            del self.keys[job.key]
        if not job.is_kept:
            self.saved.pop(job.id, None)

    def _stop(self, job: Job, outcome: RunOutcome) -> None:
        """End a job that waits: the ledger has it without a run."""
        attempt = job.place.attempt
        self._end(job, outcome, attempt)
        job.entries.append(Entry(None, outcome, attempt, is_final=True))
        self._tally(job, outcome)
        self._notice(job, outcome, attempt)

    def _notice(self, job: Job, outcome: RunOutcome, attempt: int) -> None:
        """No attempt of a worker has reported this end: another worker has to call the hooks."""
        self.notices[job.id, outcome, attempt] += 1

    def _tally(self, job: Job, outcome: RunOutcome) -> None:
        minute = self.now.replace(second=0, microsecond=0)
        self.tallied[minute, job.new.policy.queue, job.new.policy.kind, outcome] += 1


def outcome_of(transition: Transition) -> RunOutcome:
    names: dict[type[Transition], RunOutcome] = {
        CompleteJob: "succeeded",
        RetryJob: "retried",
        SnoozeJob: "snoozed",
        ReleaseJob: "released",
        FailJob: "failed",
        CancelJob: "cancelled",
    }
    return names[type(transition)]
