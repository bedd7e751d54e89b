"""EXPLAIN guards of the gate: with 200,000 jobs of 20,000 keys waiting, and as many of one key, each
statement reads what concerns its own keys.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.limit_use import LimitUse
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob, RetryJob
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.statement import Statement
from holdfast.storage import jobs, jobs_listed, limits, operators, ring, runs
from holdfast.storage.completions import RunToComplete, complete_one
from holdfast.storage.session import plan_as_written
from storage.query_plans import Statistics, explained
from support.databases import a_copy
from support.engine import SCHEMA

MANY = 200_000
KEYS = 20_000
BIG = {"job", "ready_gated", "lane", "knock", "ready_0", "ready_1", "ready_2", "ready_3"}
STATISTICS: tuple[Statistics, ...] = ("fresh", "none", "of an emptied table")
DONE = CompleteJob(None, None)

# Of the limit `many` each key has one who runs and ten who wait; of `hot` 10 run and all others wait; ten
# keys have a knock.
FILL = f"""
insert into holdfast.worker (host, pid, version, queues, kinds, slots, started_at, beat_at, expires_at)
values ('h', 1, '0', '{{default}}', '{{mail}}', 10, now(), now(), now() + interval '1 day');
insert into holdfast.limit_rule
       (name, declared_at, changed_at, per_key, total, may_be_direct, is_direct, declared)
values ('many', now(), now(), 1, null, true, true, '{{}}'),
       ('hot', now(), now(), null, 10, true, true, '{{}}');
insert into holdfast.job (id, created_at, priority, max_attempts, kind, queue, args, limits, limit_keys)
select n, now(), 5, 20, 'mail', 'default', '{{}}', array[case when n % 2 = 0 then 'many' else 'hot' end],
       array[case when n % 2 = 0 then 'k' || n / 2 % {KEYS} else '' end]
  from generate_series(1, {2 * MANY}) n;
insert into holdfast.ready (job, ready_at, attempt, priority, segment, queue, kind, limit_name, limit_key)
select id, now(), 0, 5, 8, 'default', 'mail', limits[1], limit_keys[1] from holdfast.job where id > {KEYS};
insert into holdfast.lane (limit_name, key, held, awaited)
select 'many', 'k' || n, 1, true from generate_series(0, {KEYS - 1}) n;
insert into holdfast.lane (limit_name, key, held, awaited) values ('hot', '', 10, true);
insert into holdfast.lease
       (worker, job, run, ready_at, started_at, timeout_at, attempt, queue, kind, is_plain)
select 1, id, id, now(), now(), now() + interval '1 hour', 1, 'default', 'mail', false
  from holdfast.job where id <= 20;
insert into holdfast.knock (limit_name, key, given)
select 'many', 'k' || n, 1 from generate_series(100, 109) n;
select setval('holdfast.job_id_seq', {3 * MANY});
analyze;
"""


@pytest.fixture(scope="module")
def connection(server_dsn: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection with Holdfast's settings. Every test rolls back what it did."""
    with a_copy(server_dsn, template, "gate_plans") as connection:
        connection.execute(FILL.encode())
        connection.commit()
        connection.autocommit = True
        run_on_blocking(connection, plan_as_written())
        connection.execute("set statement_timeout = '30s'")
        yield connection


def settled(transition: Any, ids: range, *, from_front: bool) -> Statement[runs.Settled]:
    return runs.settle(
        SCHEMA,
        [runs.Settlement(1, n, n, transition) for n in ids],
        retention=Retention(),
        from_front=from_front,
    )


def new(*keys: str) -> list[NewJob]:
    policy = Policy("mail")
    return [NewJob(policy, limits=(LimitUse("many", key),)) for key in keys]


GUARDS: dict[str, tuple[Statement[Any], int, set[str]]] = {
    "enqueue of 10": (
        jobs.enqueue(SCHEMA, new(*map(str, range(10))), notify=False),
        600,
        set(),
    ),
    "complete of 10 that hand on": (
        settled(DONE, range(2, 21, 2), from_front=False),
        1_500,
        {"ready_gated_lane", "lease_pkey", "job_pkey"},
    ),
    "complete of 10 that hand on from the front": (
        settled(DONE, range(1, 20, 2), from_front=True),
        1_500,
        {"ready_gated_lane", "lease_pkey", "job_pkey"},
    ),
    "retry of 10 that hand on": (
        settled(RetryJob(Retention().dead, Failure("no")), range(2, 21, 2), from_front=True),
        1_800,
        {"ready_gated_lane", "lease_pkey", "job_pkey"},
    ),
    "complete one that hands on": (
        complete_one(
            SCHEMA,
            RunToComplete(1, 2, 2, DONE, is_plain=False, is_limited=True),
            retention=Retention(),
        ),
        300,
        {"ready_gated_lane", "lease_pkey"},
    ),
    "admit of 10": (
        limits.admit_direct(SCHEMA, "many"),
        1_500,
        {"ready_gated_lane", "lane_pkey", "knock_pkey"},
    ),
    "look": (limits.look_at_gate(SCHEMA, {"hot": 0, "many": 0}), 30, {"knock_pkey"}),
    "sweep of 100 keys": (limits.sweep_gate(SCHEMA, limit=100), 3_500, {"ready_gated_lane", "lane_pkey"}),
    "list of gated jobs": (
        jobs_listed.list_jobs(SCHEMA, parse_filter("state:gated"), source="gated", limit=50, window=2_000),
        6_000,
        {"ready_gated_pkey", "job_pkey"},
    ),
    "cancel of 10 gated jobs": (
        next(operators.cancel(SCHEMA, list(range(300_000, 300_010)), retention=Retention())),
        4_000,
        {"ready_gated_pkey", "job_pkey"},
    ),
    "park in the ring": (ring.park(SCHEMA, segment=0, is_only_limited=True), 50, set()),
}


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", GUARDS)
def test_a_statement_of_the_gate_touches_what_concerns_its_keys(
    connection: psycopg.Connection[Any], name: str, statistics: Statistics
) -> None:
    statement, blocks, indexes = GUARDS[name]
    plan = explained(connection, statement, statistics)
    assert plan.scanned & BIG == set()
    assert indexes - plan.indexes == set()
    assert plan.blocks <= blocks, plan.heaviest
