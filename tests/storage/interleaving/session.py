"""One session with its own clock, and short verbs for every statement that interleaving tests send."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg

from holdfast.domain.job import NewJob, Policy, args_json
from holdfast.domain.retention import Retention
from holdfast.domain.transition import Transition
from holdfast.domain.uniqueness import OnConflict
from holdfast.postgres.conversation import Conversation, hold_blocking
from holdfast.storage import chores, job_verbs, jobs, operators, ring, runs, workers
from holdfast.storage.session import plan_as_written
from support.engine import SCHEMA, START, Engine


class Session(Engine):
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection, self.now = connection, START
        self.pid = connection.info.backend_pid

    def plan(self) -> None:
        self.run(plan_as_written())

    def execute(self, query: str, *params: object) -> None:
        self.connection.execute(query.encode(), params)

    def begin(self, isolation: str = "read committed") -> None:
        self.execute(f"begin isolation level {isolation}")

    def commit(self) -> None:
        self.execute("commit")

    def rollback(self) -> None:
        self.execute("rollback")

    @contextmanager
    def holding(self, query: str, *params: object) -> Iterator[None]:
        """Hold the locks of a query until the block ends; what the query wrote is rolled back."""
        self.begin()
        self.execute(query, *params)
        try:
            yield
        finally:
            self.rollback()

    def unique(
        self,
        key: str,
        *,
        on_conflict: OnConflict = "existing",
        policy: Policy | None = None,
        args: Mapping[str, object] | None = None,
        **when: Any,
    ) -> jobs.Enqueued:
        new = NewJob(policy or Policy("mail"), args_json(args or {}), unique_key=key, **when)
        [row] = self.hold(
            jobs.enqueue_many(SCHEMA, [new], on_conflict=on_conflict, notify=True, now=self.now)
        )
        return row

    def settles(self, worker: int, claimed: runs.ClaimRow, transition: Transition) -> runs.Settled:
        """Settle as a worker does: it asks again after the answer `moving`."""
        assert claimed.job is not None
        settlement = runs.Settlement(worker, claimed.job, claimed.run, transition)
        [settled] = self.hold(runs.settle_surely(SCHEMA, [settlement], now=self.now, retention=Retention()))
        return settled

    def renew(self, worker: int, *known: int) -> runs.Heartbeat:
        return self.one(runs.renew(SCHEMA, worker=worker, lease=workers.LEASE, runs=known, now=self.now))

    def mark_lost(self) -> list[int]:
        return self.run(workers.mark_lost(SCHEMA, now=self.now))

    def rescue(self, limit: int = 500) -> list[runs.Settled]:
        taken = self.hold(chores.rescue(SCHEMA, luck=0.5, limit=limit, now=self.now, retention=Retention()))
        return [each.settled for each in taken]

    def rescue_overdue(self) -> list[runs.Settled]:
        taken = self.hold(
            chores.rescue_overdue(SCHEMA, luck=0.5, grace=timedelta(), now=self.now, retention=Retention())
        )
        return [each.settled for each in taken]

    def retire(self, worker: int) -> bool:
        return self.hold(workers.retire(SCHEMA, worker=worker, now=self.now))

    def lead(self, worker: int) -> int | None:
        answers = self.run(workers.lead(SCHEMA, worker=worker, now=self.now))
        return answers[0].term if answers else None

    def cancel(self, job: int) -> str:
        return self._verb(operators.cancel(SCHEMA, [job], now=self.now, retention=Retention()))

    def reprioritise(self, job: int, priority: int) -> str:
        return self._verb(operators.reprioritise(SCHEMA, [job], priority=priority))

    def resume_dead(self, job: int) -> str:
        return self._verb(operators.resume_dead(SCHEMA, [job], now=self.now))

    def delete_ended(self, job: int) -> str:
        return self._verb(job_verbs.delete(SCHEMA, [job], with_waiting=False))

    def _verb(self, conversation: Conversation[dict[int, str]]) -> str:
        """Each statement in a transaction of its own, as on Holdfast's own connections."""
        [answer] = hold_blocking(conversation, self.run).values()
        return answer

    def promote(self, limit: int = 100) -> int:
        return self.one(chores.promote(SCHEMA, limit=limit, now=self.now)).moved

    def expire(self) -> int:
        return self.one(chores.expire(SCHEMA, now=self.now, retention=Retention())).moved

    def prune(self) -> int:
        return self.one(chores.prune(SCHEMA, now=self.now)).moved

    def turn(self, to: int) -> bool:
        version = self.one(ring.look_at_ring(SCHEMA, now=self.now)).version
        return bool(self.run(ring.turn(SCHEMA, to=to, version=version, now=self.now)))

    def close(self, segment: int) -> bool:
        version = self.one(ring.look_at_ring(SCHEMA, now=self.now)).version
        return bool(self.run(ring.close(SCHEMA, segment=segment, version=version, now=self.now)))

    def turn_and_close(self) -> None:
        """The ring moves on to segment 1, and segment 0 is closed: it may be truncated now."""
        assert self.turn(1)
        assert self.close(0)

    def reopen(self, segment: int) -> None:
        self.run(ring.reopen(SCHEMA, segment=segment))

    def gather(self, segment: int) -> int:
        return self.one(ring.gather(SCHEMA, segment=segment))

    def park(self, segment: int) -> int:
        return self.one(ring.park(SCHEMA, segment=segment, now=self.now))

    def unpark(self) -> int:
        return self.one(ring.unpark(SCHEMA, now=self.now))

    def segment(self, job: int) -> int | None:
        """The segment of the ring that holds this ready job."""
        row = self.connection.execute("select segment from holdfast.ready where job = %s", [job]).fetchone()
        return row and row[0]

    def key_holder(self, key: str) -> int | None:
        row = self.connection.execute("select job from holdfast.unique_key where key = %s", [key]).fetchone()
        return row and row[0]
