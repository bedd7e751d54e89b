"""One connection of ours, as a worker would hold it: statements prepared, planner settings made."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from holdfast.domain.job import NewJob, Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.postgres.conversation import Conversation, hold_blocking
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage import jobs, runs, workers
from holdfast.storage.session import plan_as_written

T = TypeVar("T")
R = TypeVar("R")

SCHEMA = Schema()
BATCH = 200
KIND = "send_receipt"
QUEUE = "default"
POLICY = Policy(KIND, queue=QUEUE)
ARGS = '{"user_id": 4711, "template": "receipt", "total": "49.90"}'
DONE = CompleteJob(result=None, flag=None)


class Session:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.run(plan_as_written())

    @classmethod
    @contextmanager
    def on(cls, dsn: str) -> Iterator["Session"]:
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as connection:
            yield cls(connection)

    def run(self, statement: Statement[T]) -> list[T]:
        cursor = self.connection.execute(statement.text.encode(), statement.params, binary=True)
        return statement.results(cursor.fetchall()) if cursor.description else []

    def one(self, statement: Statement[T]) -> T:
        [row] = self.run(statement)
        return row

    def hold(self, conversation: Conversation[R]) -> R:
        """All statements of a conversation in one transaction."""
        with self.connection.transaction():
            return hold_blocking(conversation, self.run)

    def ask(
        self,
        text: str,
        params: Mapping[str, object] | Sequence[object] | None = None,
        *,
        binary: bool = False,
    ) -> list[Any]:
        """SQL of the benchmark's own."""
        cursor = self.connection.execute(SCHEMA.fill(text).encode(), params, binary=binary)
        return cursor.fetchall() if cursor.description else []

    def worker(self) -> int:
        return self.one(
            workers.register(
                SCHEMA, host="bench", pid=1, version="0", queues=[QUEUE], kinds=[KIND], slots=BATCH
            )
        )

    def enqueue(self, number: int, chunk: int = 1_000) -> None:
        for begin in range(0, number, chunk):
            self.run(jobs.enqueue(SCHEMA, new_jobs(min(chunk, number - begin)), notify=False))

    def claim(self, worker: int, closed: int | None = None) -> list[runs.ClaimRow]:
        return self.run(
            runs.claim(SCHEMA, worker=worker, queue=QUEUE, kinds=[KIND], limit=BATCH, closed=closed)
        )

    def settle(self, worker: int, claimed: list[runs.ClaimRow]) -> list[runs.Settled]:
        return self.run(
            runs.settle(
                SCHEMA,
                [runs.Settlement(worker, row.job, row.run, DONE) for row in claimed if row.job is not None],
                retention=Retention(),
            )
        )


def new_jobs(number: int) -> list[NewJob]:
    return [NewJob(POLICY, ARGS) for _ in range(number)]


def seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
