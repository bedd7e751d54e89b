"""A database of jobs driven from a test: statements on a blocking connection, a clock that can be moved."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import psycopg

from holdfast.domain.job import NewJob, Policy, args_json
from holdfast.domain.retention import Retention
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.conversation import Conversation, hold_blocking
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage import job_lookup, jobs, ring, runs, workers
from holdfast.storage.session import plan_as_written

T = TypeVar("T")
R = TypeVar("R")

SCHEMA = Schema()
START = datetime(2026, 1, 1, tzinfo=UTC)


class Engine:
    """One connection of ours. `now` is sent with every statement that takes a time; None: the real clock."""

    def __init__(self, connection: psycopg.Connection[Any], now: datetime | None = START) -> None:
        self.connection = connection
        self.now = now
        self.run(plan_as_written())

    @classmethod
    @contextmanager
    def on(cls, dsn: str, now: datetime | None = START) -> Iterator["Engine"]:
        with psycopg.connect(dsn, autocommit=True) as connection:
            yield cls(connection, now)

    def pass_time(self, length: timedelta) -> None:
        assert self.now is not None, "the real clock cannot be moved"
        self.now += length

    def run(self, statement: Statement[T]) -> list[T]:
        return run_on_blocking(self.connection, statement)

    def one(self, statement: Statement[T]) -> T:
        [row] = self.run(statement)
        return row

    def hold(self, conversation: Conversation[R]) -> R:
        """All statements of a conversation in one transaction."""
        with self.connection.transaction():
            return hold_blocking(conversation, self.run)

    def truncate(self, segment: int) -> bool:
        """Whether it was: a truncated table has a new file."""
        file = f"select pg_relation_filenode('holdfast.ready_{segment}')"
        before = self.connection.execute(file.encode()).fetchall()
        self.run(ring.truncate(SCHEMA, segment=segment))
        return before != self.connection.execute(file.encode()).fetchall()

    def worker(self, *, queues: tuple[str, ...] = ("default",), kinds: tuple[str, ...] = ("mail",)) -> int:
        return self.one(
            workers.register(
                SCHEMA, host="host", pid=1, version="0", queues=queues, kinds=kinds, slots=10, now=self.now
            )
        )

    def enqueue(
        self, policy: Policy | None = None, args: Mapping[str, object] | None = None, **when: Any
    ) -> int:
        """One job; `when` takes delay, run_at, deadline_at and unique_key."""
        new = NewJob(policy or Policy("mail"), args_json(args or {}), **when)
        return self.one(jobs.enqueue(SCHEMA, [new], notify=False, now=self.now)).job

    def claim(
        self,
        worker: int,
        *,
        queue: str = "default",
        kinds: tuple[str, ...] = ("mail",),
        limit: int = 10,
        closed: int | None = None,
        after: tuple[int, int] | None = None,
        is_quick: bool = False,
    ) -> list[runs.ClaimRow]:
        """The jobs that were claimed, without the row that only tells of the ring."""
        rows = self.run(
            runs.claim(
                SCHEMA,
                worker=worker,
                queue=queue,
                kinds=kinds,
                limit=limit,
                closed=closed,
                after=after,
                is_quick=is_quick,
                now=self.now,
            )
        )
        return [row for row in rows if row.job is not None]

    def settle(self, worker: int, claimed: runs.ClaimRow, transition: Any) -> runs.Settled:
        assert claimed.job is not None
        settlement = runs.Settlement(worker, claimed.job, claimed.run, transition)
        return self.one(runs.settle(SCHEMA, [settlement], now=self.now, retention=Retention()))

    def find(self, job: int) -> job_lookup.Found | None:
        return next(iter(self.run(job_lookup.find(SCHEMA, job))), None)

    def dead(self) -> list[job_lookup.Found]:
        """The dead letters, oldest first."""
        rows = self.connection.execute("select job from holdfast.dead order by job").fetchall()
        return [found for (job,) in rows if (found := self.find(job)) is not None]

    def state(self, job: int) -> str | None:
        found = self.find(job)
        return found.state if found else None

    def history(self, job: int) -> list[job_lookup.LedgerEntry]:
        return self.run(job_lookup.history(SCHEMA, job))
