"""What the storage engine should do, small enough to be read in one sitting: jobs in a dictionary, each with
the one place it is in. The state machine does everything twice, here and in Postgres, and compares.

Numbers (job ids, runs) are the database's to give: they come in as arguments. So does all luck.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from msgspec import structs

from holdfast.domain.backoff import from_json, to_json
from holdfast.domain.failure import Failure
from holdfast.domain.outcome import Lost
from holdfast.domain.transition import Run, decide
from holdfast.storage.runs import Settled, Settlement
from holdfast.storage.workers import LEASE
from storage.state_machine.job_model import Lives
from storage.state_machine.job_places import Ended, Job, Ready, Running, Scheduled

PARKED = 9


class Model(Lives):
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

    def promote(self, since: datetime | None) -> tuple[int, datetime | None]:
        due = [
            (job.place.run_at, job)
            for job in self.jobs.values()
            if isinstance(job.place, Scheduled) and job.place.run_at <= self.now
            if since is None or job.place.run_at >= since
        ]
        for _, job in due:
            job.place = Ready(job.place.attempt, self.ring.current)
        return len(due), max((run_at for run_at, _ in due), default=since)

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
        job.new = structs.replace(job.new, policy=replace(job.new.policy, priority=priority))
        if isinstance(job.place, Ready) and job.place.segment != PARKED:
            job.place = replace(job.place, segment=self.ring.current)
        return "changed"

    def take_up_again(self, id_: int, *, from_start: bool) -> str:
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
        return "retried" if from_start else "resumed"

    def purge(self, jobs: Sequence[int]) -> int:
        dead = [id_ for id_ in jobs if id_ in self.jobs and self.jobs[id_].is_dead]
        self._forget(dead)
        return len(dead)

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
