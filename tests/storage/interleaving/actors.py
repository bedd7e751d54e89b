"""Actors for many threads: callers, workers, operators and leaders, each of which does anything it may do."""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random

import psycopg

from holdfast.domain.backoff import Fixed, from_json
from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.outcome import AttemptOutcome, Cancelled, Failed, Released, Snoozed, Succeeded
from holdfast.domain.retention import Retention
from holdfast.domain.ring import SEGMENTS, Pace, Ring, next_moves
from holdfast.domain.transition import Run, decide
from holdfast.domain.uniqueness import OnConflict
from holdfast.errors import DuplicateJob
from holdfast.postgres.conversation import Conversation, hold_blocking
from holdfast.storage import chores, job_verbs, jobs, operators, ring, runs, workers
from storage.interleaving.actor_threads import KINDS, QUEUES, UNKNOWN, SharedRecord
from storage.interleaving.session import Session
from support.engine import SCHEMA

MOMENT = timedelta(milliseconds=50)
LEASE = timedelta(milliseconds=500)
RETENTION = Retention(*[timedelta(milliseconds=300)] * 3)
ISOLATION = ("read committed", "read committed", "repeatable read", "serializable")


class Caller:
    """Enqueues plain and unique jobs in its own transactions, and rolls some of them back."""

    def __init__(self, session: Session, record: SharedRecord, luck: Random) -> None:
        self.session, self.record, self.luck = session, record, luck

    def once(self) -> None:
        isolation = self.luck.choice(ISOLATION)
        self.session.begin(isolation)
        try:
            enqueued = self.luck.choice([self._plain, self._unique, self._sql])()
            self.record.stop.wait(self.luck.choice([0, 0, 0.005, 0.02]))
            is_kept = self.luck.random() < 0.8
            self.session.execute("commit" if is_kept else "rollback")
            if is_kept:
                self.record.was_enqueued(*enqueued)
        except DuplicateJob:
            self.session.rollback()
        except psycopg.errors.SerializationFailure:
            self.session.rollback()
            assert isolation != "read committed", "only a stricter isolation level is refused"

    def _plain(self) -> list[int]:
        new = [self._new() for _ in range(self.luck.randint(1, 10))]
        return [row.job for row in self.session.run(jobs.enqueue(SCHEMA, new, notify=True))]

    def _unique(self) -> list[int]:
        keys = self.luck.sample("abcdefgh", self.luck.randint(1, 3))
        on_conflict: OnConflict = self.luck.choice(["existing", "raise", "replace"])
        new = [self._new(unique_key=key) for key in keys]
        talk = jobs.enqueue_many(SCHEMA, new, on_conflict=on_conflict)
        return [row.job for row in hold_blocking(talk, self.session.run) if row.is_new]

    def _sql(self) -> list[int]:
        query = (
            "select job, not exists (select from holdfast.job where id = job)"
            " from (select holdfast.enqueue(%s, keep => %s, unique_key => %s) as job) e"
        )
        key = self.luck.choice([None, *"abcdefgh"])
        # The outer query's snapshot is from before the call: it knows only jobs that were there already.
        rows = self.session.connection.execute(query, [self.luck.choice(KINDS), self._keep(), key]).fetchall()
        return [job for job, is_new in rows if is_new]

    def _keep(self) -> timedelta | None:
        return self.luck.choice([None, timedelta(), MOMENT])

    def _new(self, unique_key: str | None = None) -> NewJob:
        luck = self.luck
        policy = Policy(
            luck.choice([*KINDS, *KINDS, *KINDS, UNKNOWN]),
            # A unique key belongs to a queue: in one and the same, callers meet.
            queue="default" if unique_key else luck.choice(QUEUES),
            priority=luck.randint(0, 9),
            max_attempts=luck.randint(1, 4),
            backoff=Fixed(MOMENT),
            timeout=luck.choice([None, 4 * MOMENT]),
            keep=self._keep(),
            on_lost=luck.choice(["retry", "fail"]),
        )
        delay = luck.choice([None, None, MOMENT, 4 * MOMENT])
        deadline = luck.choice([None, None, None, 6 * MOMENT])
        return NewJob(policy, delay=delay, deadline_in=deadline, unique_key=unique_key)


class Worker:
    """Claims and settles in every way, sends some settles twice, and now and then dies or retires."""

    def __init__(self, session: Session, record: SharedRecord, luck: Random) -> None:
        self.session, self.record, self.luck = session, record, luck
        session.plan()
        self.closed: int | None = None
        self._begin()

    def _begin(self) -> None:
        self.id = self.session.one(
            workers.register(
                SCHEMA,
                host="host",
                pid=1,
                version="0",
                queues=QUEUES,
                kinds=KINDS,
                slots=10,
                lease=LEASE,
            )
        )

    def once(self) -> None:
        held: list[runs.ClaimRow] = []
        for queue in QUEUES:
            held += self._claim(queue)
        if not self._is_alive(held) or self.luck.random() < 0.02:
            self._begin()
            return
        self._save(held)
        self._settle(held)
        if self.luck.random() < 0.02:
            self.session.hold(workers.retire(SCHEMA, worker=self.id))
            self._begin()
        if not held:
            self.record.stop.wait(0.01)

    def _claim(self, queue: str) -> list[runs.ClaimRow]:
        limit = self.luck.randint(1, 10)
        rows = self.session.run(
            runs.claim(SCHEMA, worker=self.id, queue=queue, kinds=KINDS, limit=limit, closed=self.closed)
        )
        self.closed = rows[0].closed
        return [row for row in rows if row.job is not None]

    def _is_alive(self, held: list[runs.ClaimRow]) -> bool:
        beat = self.session.one(
            runs.renew(SCHEMA, worker=self.id, lease=LEASE, runs=[row.run for row in held])
        )
        return beat.is_alive

    def _save(self, held: list[runs.ClaimRow]) -> None:
        savings = [
            runs.Saving(self.id, row.job or 0, row.run, state=json.dumps(row.run))
            for row in held
            if self.luck.random() < 0.1
        ]
        self.session.run(runs.save(SCHEMA, savings))

    def _settle(self, held: list[runs.ClaimRow]) -> None:
        batch = [
            runs.Settlement(self.id, row.job or 0, row.run, decide(_run(row), self._outcome(), 0.5))
            for row in held
        ]
        self.luck.shuffle(batch)
        for _ in range(self.luck.choice([1, 1, 2])):
            answers = self.session.hold(runs.settle_surely(SCHEMA, batch, retention=RETENTION))
            assert len(answers) == len(batch)
            for answer in answers:
                assert answer.answer != "moving"
                self.record.done[f"{answer.answer} {answer.outcome}"] += 1
                self.record.settled[answer.run] += answer.answer == "settled"

    def _outcome(self) -> AttemptOutcome:
        failure = Failure("bad luck")
        everything: list[AttemptOutcome] = [
            *[Succeeded()] * 6,
            *[Failed(failure)] * 3,
            Failed(failure, is_retryable=False),
            Snoozed(MOMENT),
            Released(),
            Cancelled(failure),
        ]
        return self.luck.choice(everything)


def _run(row: runs.ClaimRow) -> Run:
    return Run(row.attempt, row.max_attempts, from_json(row.backoff))


class Operator:
    """Cancels, reprioritises, pauses, resumes and purges, one or several at a time."""

    def __init__(self, session: Session, record: SharedRecord, luck: Random) -> None:
        self.session, self.record, self.luck = session, record, luck
        session.plan()

    def once(self) -> None:
        some = self.record.recent_jobs(self.luck, self.luck.randint(1, 5))
        queue = self.luck.choice(QUEUES)
        deeds: list[Callable[[], object]] = [
            partial(self._ask, partial(operators.cancel, retention=RETENTION), some),
            partial(self._ask, partial(operators.reprioritise, priority=self.luck.randint(0, 9)), some),
            partial(self.session.run, operators.pause(SCHEMA, queue=queue, length=MOMENT)),
            partial(self.session.run, operators.resume(SCHEMA, queue=queue)),
            partial(self._ask, operators.resume_dead, self._dead()),
            partial(self._ask, operators.retry_dead, self._dead()),
            partial(self._ask, partial(job_verbs.delete, with_waiting=False), self._dead()[:2]),
        ]
        if some:
            self.luck.choice(deeds)()
        self.record.stop.wait(0.01)

    def _ask(self, verb: Callable[..., Conversation[dict[int, str]]], some: list[int]) -> None:
        talk = verb(SCHEMA, some)
        answers = (
            self.session.hold(talk) if self.luck.random() < 0.5 else hold_blocking(talk, self.session.run)
        )
        assert sorted(answers) == sorted(set(some))
        for answer in answers.values():
            self.record.done[answer] += 1

    def _dead(self) -> list[int]:
        return [found.job for found in self.session.dead()[-5:]]


class Leader:
    """Runs every chore without asking whether it leads: there are two of them."""

    pace = Pace(full=16 * 1024, old=2 * MOMENT)

    def __init__(self, session: Session, record: SharedRecord, luck: Random) -> None:
        self.session, self.record, self.luck = session, record, luck
        session.plan()

    def once(self) -> None:
        session, keep = self.session, RETENTION
        session.run(workers.lead(SCHEMA, worker=session.pid))
        deeds: list[Callable[[], object]] = [
            session.mark_lost,
            lambda: session.hold(chores.rescue(SCHEMA, luck=0.5, limit=20, retention=keep)),
            lambda: session.hold(chores.rescue_overdue(SCHEMA, luck=0.5, grace=MOMENT, retention=keep)),
            session.promote,
            lambda: session.run(chores.expire(SCHEMA, retention=keep)),
            lambda: session.run(chores.fold(SCHEMA)),
            session.prune,
            lambda: session.run(workers.forget_lost(SCHEMA, keep=MOMENT)),
            self.clear_the_ring,
            session.unpark,
        ]
        self.luck.shuffle(deeds)
        for deed in deeds:
            deed()
        self.record.stop.wait(0.01)

    def clear_the_ring(self) -> None:
        """More eagerly than a leader would: what is left in any segment behind is parked and gathered."""
        for segment in SEGMENTS:
            if segment != self._look().current:
                self.session.park(segment)
                self.session.gather(segment)
        seen = self._look()
        moves = next_moves(seen, self.pace)
        if moves.turn_to is not None:
            turned = self.session.run(ring.turn(SCHEMA, to=moves.turn_to, version=seen.version))
            self.record.done["turn"] += len(turned)
        for segment in moves.clear:
            if self.session.run(ring.close(SCHEMA, segment=segment, version=self._look().version)):
                self._truncate(segment)
                self.session.reopen(segment)

    def _look(self) -> Ring:
        return self.session.one(ring.look_at_ring(SCHEMA))

    def _truncate(self, segment: int) -> None:
        try:
            self.record.done["truncate"] += self.session.truncate(segment)
        except psycopg.errors.LockNotAvailable:
            self.record.done["truncate refused"] += 1
