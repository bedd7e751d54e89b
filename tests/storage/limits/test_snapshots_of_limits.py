"""Every snapshot of a limit is within it, with many sessions at work."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast.domain.limits import LimitSpec
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.storage import jobs, limit_rules, runs
from storage.gate import admit, admit_once, assert_accounts, limited
from support.engine import SCHEMA, Engine

pytestmark = pytest.mark.machine


def _snapshots(dsn: str, is_over: threading.Event) -> Iterator[tuple[int, int]]:
    """The most of one key, and the most of all, that hold a permit at one moment."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not is_over.is_set():
            row = connection.execute(
                "with at as (select j.limit_keys[1] as key, count(*) as n from holdfast.job j"
                " where exists (select from holdfast.lease l where l.job = j.id)"
                " or exists (select from holdfast.ready r where r.job = j.id and r.segment < 8) group by 1)"
                " select coalesce(max(n), 0), coalesce(sum(n), 0)::int from at"
            ).fetchone()
            assert row is not None
            yield row[0], row[1]


@pytest.mark.parametrize(
    ("spec", "per_key", "total"),
    [(LimitSpec(per_key=2, total=5), 2, 5), (LimitSpec(per_key=2), 2, 100)],
    ids=["shared", "direct"],
)
def test_every_snapshot_is_within_limits_with_two_leaders_and_four_workers(  # noqa: C901  # seven actors
    dsn: str, engine: Engine, spec: LimitSpec, per_key: int, total: int
) -> None:
    engine.now = None
    engine.hold(limit_rules.declare(SCHEMA, {"stripe": spec}))
    count = 600
    is_over = threading.Event()
    workers = [engine.worker() for _ in range(4)]

    def lead() -> None:
        with Engine.on(dsn, None) as mine:
            while not is_over.is_set():
                admit_once(mine)

    def take(worker: int) -> int:
        done = 0
        with Engine.on(dsn, None) as mine:
            while not is_over.is_set():
                claimed = mine.claim(worker, limit=3)
                settlements = [
                    runs.Settlement(worker, row.job or 0, row.run, CompleteJob(None, None)) for row in claimed
                ]
                if settlements:
                    mine.hold(runs.settle_surely(SCHEMA, settlements, retention=Retention()))
                done += len(settlements)
        return done

    def produce() -> None:
        """In a stricter isolation level, some of them rolled back."""
        with psycopg.connect(dsn) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            mine = Engine(connection, None)
            connection.commit()
            for number in range(count // 10):
                for is_kept in (False, True):
                    new = [limited(f"k{(number + n) % 4}") for n in range(10)]
                    mine.run(jobs.enqueue(SCHEMA, new, notify=False))
                    connection.commit() if is_kept else connection.rollback()

    with ThreadPoolExecutor(7) as pool:
        try:
            leaders = [pool.submit(lead) for _ in range(2)]
            takers = [pool.submit(take, worker) for worker in workers]
            producer = pool.submit(produce)
            for seen, (most, all_of_them) in enumerate(_snapshots(dsn, is_over)):
                assert most <= per_key
                assert all_of_them <= total
                assert seen < 50_000, "something waits for ever"
                if seen % 20 == 0:
                    left = engine.connection.execute(
                        "select count(*) from holdfast.jobs where finished_at is null"
                    ).fetchone()
                    if producer.done() and left == (0,):
                        break
        finally:
            is_over.set()
    producer.result()
    for leader in leaders:
        leader.result()
    assert sum(taker.result() for taker in takers) == count
    admit(engine)
    assert_accounts(engine)
