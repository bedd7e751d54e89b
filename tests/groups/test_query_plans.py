"""EXPLAIN guards: beside a group of 100,000 members, and 20,000 other groups, each statement reads what it
needs, whatever the statistics say.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.domain.job import NewJob, Policy
from holdfast.domain.job_filter import JobFilter
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.statement import Statement
from holdfast.storage import chores, groups, job_verbs, jobs_listed
from holdfast.storage.fsck import CHECKS
from holdfast.storage.jobs import Membership, enqueue
from holdfast.storage.session import plan_as_written
from storage.backlog import NOW
from storage.query_plans import Statistics, explained
from support.databases import a_copy
from support.engine import SCHEMA

MANY = 100_000
OTHERS = 20_000
GROUP = 10 * MANY
BIG = {"job", "ledger", "group_member"}
STATISTICS: tuple[Statistics, ...] = ("fresh", "none", "of an emptied table")

# Of the big group the first half has ended. Of the others, which have five members each, all but a hundred.
_FILL = f"""
insert into holdfast.job (id, created_at, priority, max_attempts, kind, queue, args, parent)
select n, '2026-01-01Z', 5, 20, 'mail', 'default', '{{}}',
       case when n <= {MANY} then {GROUP} else {GROUP} + (n - {MANY} + 4) / 5 end
  from generate_series(1, {MANY + 5 * OTHERS}) n;
insert into holdfast.group_member (job_group, place, job)
select {GROUP}, n - 1, n from generate_series(1, {MANY}) n;
insert into holdfast.group_member (job_group, place, job)
select {GROUP} + (n + 4) / 5, (n - 1) % 5, {MANY} + n from generate_series(1, {5 * OTHERS}) n;
insert into holdfast.ledger (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind)
select n, n, '2026-01-01Z', '2026-02-01Z', 'succeeded', 1, true, 'default', 'mail'
  from generate_series(1, {MANY + 5 * OTHERS}) n where n <= {MANY // 2} or n > {MANY};
insert into holdfast.job_group (id, created_at, members, succeeded, awaited_place)
values ({GROUP}, '2026-01-01Z', {MANY}, {MANY // 2}, {MANY // 2});
insert into holdfast.job_group (id, created_at, members, succeeded, closed_at, ended_at, keep_until)
select {GROUP} + n, '2026-01-01Z', 5, 5, '2026-01-01Z', '2026-01-01Z', '2026-02-01Z'
  from generate_series(1, {OTHERS - 100}) n;
insert into holdfast.job_group (id, created_at, members, succeeded)
select {GROUP} + n, '2026-01-01Z', 5, 4 from generate_series({OTHERS - 99}, {OTHERS}) n;
select setval('holdfast.job_id_seq', {GROUP + 2 * OTHERS});
insert into holdfast.wakeup (job, child) select {GROUP}, n from generate_series(1, 500) n;
"""


@pytest.fixture(scope="module")
def connection(server_dsn: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    with a_copy(server_dsn, template, "group_plans") as connection:
        connection.execute(_FILL.encode())
        connection.execute("analyze")
        run_on_blocking(connection, plan_as_written())
        connection.execute("set statement_timeout = '30s'")
        yield connection


def fsck(of: str) -> Statement[Any]:
    [check] = [check for check in CHECKS if check.of == of]
    return check.sights(SCHEMA, check.start, limit=50)


def deleting() -> Statement[Any]:
    return next(job_verbs.delete(SCHEMA, list(range(1, 11))))


# What each may read, in blocks.
GUARDS: dict[str, tuple[Statement[Any], int]] = {
    "join": (
        enqueue(
            SCHEMA,
            [NewJob(Policy("mail"))] * 100,
            notify=False,
            members=Membership(GROUP, range(MANY, MANY + 100)),
            now=NOW,
        ),
        3_000,
    ),
    "count": (groups.count_ends(SCHEMA, range(1, 501), now=NOW), 6_000),
    "due": (groups.due(SCHEMA, is_sweep=False), 700),
    "sweep": (groups.due(SCHEMA, is_sweep=True), 4_000),
    "walk": (groups.walk(SCHEMA, GROUP, first=0, last=500), 4_000),
    "await": (groups.wait_for(SCHEMA, GROUP, 7), 30),
    "end": (groups.end(SCHEMA, [GROUP, GROUP + 1], now=NOW), 30),
    "ask to cancel": (groups.ask_to_cancel(SCHEMA, GROUP, now=NOW), 30),
    "show": (groups.show_group(SCHEMA, GROUP, now=NOW), 20),
    "list": (groups.list_groups(SCHEMA, limit=20, now=NOW), 2_000),
    "members": (groups.member_page(SCHEMA, GROUP, first=MANY // 2 - 50, last=MANY, limit=100), 1_500),
    "awaited": (groups.awaited(SCHEMA, GROUP), 2_000),
    "prune groups": (groups.prune_groups(SCHEMA, limit=100, now=NOW), 3_000),
    "prune": (chores.prune(SCHEMA, limit=100, now=NOW), 12_000),
    "delete": (deleting(), 1_500),
    "jobs of a group": (
        jobs_listed.list_jobs(
            SCHEMA, JobFilter(groups=(GROUP + 7,)), source="members", limit=20, window=20, now=NOW
        ),
        600,
    ),
    "fsck of groups": (fsck("groups"), 6_000),
    "fsck of members": (fsck("members of groups"), 700),
}


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", GUARDS)
def test_a_statement_reads_only_what_it_needs(
    connection: psycopg.Connection[Any], name: str, statistics: Statistics
) -> None:
    statement, most = GUARDS[name]
    plan = explained(connection, statement, statistics)
    assert plan.scanned & BIG == set(), plan.heaviest
    assert plan.blocks <= most, plan.heaviest


def test_a_prune_beside_no_open_group_looks_for_no_members(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("update holdfast.job_group set ended_at = '2026-01-01Z' where ended_at is null")
        plan = explained(connection, chores.prune(SCHEMA, limit=100, now=NOW), "fresh")
        assert not {"group_member_job", "group_member_pkey"} & plan.indexes
