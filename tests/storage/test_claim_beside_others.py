"""What other workers' claims cost a claim: counted in blocks, with claims of others held open."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from holdfast.domain.job import NewJob, Policy
from holdfast.storage import runs
from holdfast.storage.jobs import enqueue
from storage.query_plans import explained
from support.engine import SCHEMA, START, Engine

LIMIT = 50
JOBS = 1_000


@pytest.fixture
def backlog(engine: Engine) -> Engine:
    engine.run(enqueue(SCHEMA, [NewJob(Policy("mail"))] * JOBS, notify=False, now=START))
    return engine


@contextmanager
def claimed_by_others(dsn: str, number: int) -> Iterator[None]:
    """So many workers have claimed, and none of them has committed."""
    with ExitStack() as stack:
        for _ in range(number):
            other = stack.enter_context(Engine.on(dsn))
            worker = other.worker()
            stack.enter_context(other.connection.transaction(force_rollback=True))
            assert len(other.claim(worker, limit=LIMIT)) == LIMIT
        yield


def blocks(engine: Engine, worker: int, *, is_quick: bool) -> int:
    statement = runs.claim(
        SCHEMA, worker=worker, queue="default", kinds=["mail"], limit=LIMIT, is_quick=is_quick, now=START
    )
    return explained(engine.connection, statement, "fresh").blocks


def test_a_quick_claim_costs_the_same_beside_any_number_of_claimers(dsn: str, backlog: Engine) -> None:
    worker = backlog.worker()
    alone = blocks(backlog, worker, is_quick=True)
    with claimed_by_others(dsn, 8):
        beside_eight = blocks(backlog, worker, is_quick=True)
        trying_locks = blocks(backlog, worker, is_quick=False)
    # Rows that are passed over share the pages of ready and of its index, dozens on each.
    assert beside_eight <= alone + 8 * LIMIT // 8
    assert trying_locks >= alone + 8 * LIMIT, "so that the bound above means something"


def test_a_quick_claim_takes_the_oldest_jobs_that_no_other_claim_holds(dsn: str, backlog: Engine) -> None:
    worker = backlog.worker()
    with claimed_by_others(dsn, 3):
        quick = [row.job for row in backlog.claim(worker, limit=LIMIT, is_quick=True)]
    assert quick == list(range(3 * LIMIT + 1, 4 * LIMIT + 1))


def test_a_quick_claim_leaves_out_a_job_whose_claim_was_rolled_back_and_the_next_takes_it(
    dsn: str, backlog: Engine
) -> None:
    worker = backlog.worker()
    with claimed_by_others(dsn, 1):
        pass
    assert [row.job for row in backlog.claim(worker, limit=1, is_quick=True)] == [LIMIT + 1]
    assert [row.job for row in backlog.claim(worker, limit=1)] == [1]


def test_a_quick_claim_sees_a_more_urgent_job_that_came_meanwhile(backlog: Engine) -> None:
    worker = backlog.worker()
    backlog.claim(worker, limit=LIMIT)
    urgent = backlog.enqueue(Policy("mail", priority=0))
    assert [row.job for row in backlog.claim(worker, limit=2, is_quick=True)] == [urgent, LIMIT + 1]
