"""EXPLAIN guards: with a hundred thousand scopes and a million plans the planner reads what it needs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast.domain.plan_decisions import Decided, PlanDecisions
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.statement import Statement
from holdfast.storage import schedules, schedules_plans
from holdfast.storage.schedules_plans import DecidedScopes, DueRow
from holdfast.storage.session import plan_as_written
from schedules.driven_planner import SCHEMA
from storage.query_plans import Statistics, explained
from support.databases import a_copy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = NOW - timedelta(hours=1)
BIG = {"schedule_scope", "plan", "job", "ledger"}
STATISTICS: tuple[Statistics, ...] = ("fresh", "none", "of an emptied table")

_FILL = """
alter table holdfast.plan set (autovacuum_enabled = off);
alter table holdfast.schedule_scope set (autovacuum_enabled = off);
insert into holdfast.schedule (name, kind, timing, created_at, changed_at)
select 's' || n, 'mail', '{"every": 3600}', '2025-01-01Z', '2025-01-01Z' from generate_series(1, 100) n;
insert into holdfast.schedule_scope (schedule, scope, created_at, since_at, last_plan_at, next_at)
select 's' || n % 100 + 1, 't' || n, '2025-01-01Z', '2025-01-01Z', '2025-12-31 22:00Z',
       timestamptz '2026-01-01Z' + (n - 20000) * interval '1 second'
  from generate_series(1, 100000) n;
insert into holdfast.plan (schedule, scope, plan_time, decided_at, keep_until, decision)
select 's' || n % 100 + 1, 't' || n % 100000,
       timestamptz '2025-12-31 22:00Z' - n / 100000 * interval '1 hour', '2025-12-31Z',
       timestamptz '2026-01-01Z' + (n - 500) * interval '1 second', 'fired'
  from generate_series(1, 1000000) n;
analyze;
"""


@pytest.fixture(scope="module")
def connection(server_dsn: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection with Holdfast's settings. Every test rolls back what it did."""
    with a_copy(server_dsn, template, "schedule_guards") as connection:
        connection.execute("set synchronous_commit = off")
        for command in _FILL.split(";"):
            connection.execute(command)
        run_on_blocking(connection, plan_as_written())
        connection.execute("set statement_timeout = '30s'")
        yield connection


def move(scopes: list[str]) -> DecidedScopes:
    """One plan for these scopes of the first schedule, as they stand."""
    last = datetime(2025, 12, 31, 22, tzinfo=UTC)
    row = DueRow(NOW, "s1", scopes, 1, "{}", "{}", None, None, None, last, last, None, None, None)
    look = PlanDecisions((Decided(PLAN, "fired", None, PLAN),), PLAN, NOW + timedelta(hours=1))
    return DecidedScopes(row, scopes, look)


SCOPES = [f"t{n}" for n in range(100, 10_100, 100)]
FIRE = ("schedule_scope_pkey", "schedule_pkey")
GUARDS: dict[str, tuple[Statement[Any], int, tuple[str, ...]]] = {
    "due": (schedules_plans.due(SCHEMA, limit=100, now=NOW), 1_500, ("schedule_scope_next_at",)),
    "next": (schedules_plans.next_look(SCHEMA, now=NOW), 20, ("schedule_scope_next_at",)),
    "fire of 100 alone": (
        schedules_plans.fire(SCHEMA, [move([scope]) for scope in SCOPES], now=NOW), 5_200, FIRE,
    ),
    "fire of 100 alike": (schedules_plans.fire_alike(SCHEMA, move(SCOPES), now=NOW), 6_500, FIRE),
    "prune of 100": (
        schedules_plans.prune(SCHEMA, limit=100, now=NOW), 2_500, ("plan_keep_until", "schedule_scope_pkey"),
    ),
    "refuse of 2": (
        schedules_plans.refuse(
            SCHEMA, [("s1", "t100", "no"), ("s1", "t200", "no")], wait=timedelta(minutes=1), now=NOW
        ),
        80, ("schedule_scope_pkey",),
    ),
    "a page of plans": (schedules_plans.plans_of(SCHEMA, "s1", limit=20), 800, ("plan_identity",)),
    "known plans": (
        schedules_plans.known_plans(SCHEMA, "s1", first=PLAN, last=NOW), 30, ("plan_identity",),
    ),
    "find": (schedules.find(SCHEMA, "s1", now=NOW), 2_500, ("schedule_pkey", "schedule_scope_pkey")),
}  # fmt: skip


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", GUARDS)
def test_a_statement_of_the_planner_touches_a_few_blocks_of_many(
    connection: psycopg.Connection[Any], name: str, statistics: Statistics
) -> None:
    statement, blocks, indexes = GUARDS[name]
    plan = explained(connection, statement, statistics)
    assert plan.scanned & BIG == set()
    assert set(indexes) - plan.indexes == set()
    assert plan.blocks <= blocks


def test_the_fires_that_are_guarded_do_fire(connection: psycopg.Connection[Any]) -> None:
    """So that a green guard means something."""
    for name in ("fire of 100 alone", "fire of 100 alike"):
        with connection.transaction(force_rollback=True):
            [done] = run_on_blocking(connection, GUARDS[name][0])
            assert (done.taken, done.fired) == (100, 100), name
