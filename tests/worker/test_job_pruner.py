"""The leader's pruning goes on until nothing old is left."""

import psycopg

from holdfast.postgres.database import Database
from holdfast.worker.chores.job_pruner import JobPruner
from support.engine import SCHEMA


async def test_old_counters_are_deleted_batch_after_batch_however_many_there_are(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into holdfast.counter (minute, queue, kind, outcome, runs, run_time)"
            " select now() - interval '8 days', 'default', 'kind ' || i, 'succeeded', 1, '1s'"
            "   from generate_series(1, 25) i"
        )
        connection.execute(
            "insert into holdfast.beginning (minute, queue, kind, enqueued, started)"
            " select minute, queue, kind, 1, 1 from holdfast.counter"
        )
        async with Database(dsn) as database:
            pruner = JobPruner(database, SCHEMA, counters=10)
            assert [(await pruner.once()).is_more for _ in range(4)] == [True, True, False, False]
        left = connection.execute(
            "select (select count(*) from holdfast.counter), (select count(*) from holdfast.beginning)"
        ).fetchone()
    assert left == (0, 0)
