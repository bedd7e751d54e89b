"""EXPLAIN guards: figures over time read their range, not all that is kept."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.statement import Statement
from holdfast.storage.session import plan_as_written
from holdfast.storage.statistics import count_enqueued, figures, overview, overview_plans
from storage.query_plans import explained
from support.databases import a_copy
from support.engine import SCHEMA

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)

FILL = """
insert into holdfast.counter
       (minute, queue, kind, outcome, runs, run_time, wait_buckets, wait_counts, run_buckets, run_counts)
select timestamptz '2026-01-01Z' - m * interval '1 minute', 'mail', 'kind_' || k, 'succeeded', 6, '1 s',
       '{-9,-8,-5}', '{1,2,3}', '{-12,-10}', '{3,3}'
  from generate_series(0, 10080) m, generate_series(0, 19) k;
insert into holdfast.beginning (minute, queue, kind, enqueued, started)
select minute, queue, kind, runs, runs from holdfast.counter;
insert into holdfast.counter_hour (hour, queue, kind, outcome, runs, run_time)
select timestamptz '2026-01-01Z' - h * interval '1 hour', 'mail', 'kind_' || k, 'succeeded', 6, '1 s'
  from generate_series(0, 2160) h, generate_series(0, 19) k;
insert into holdfast.beginning_hour (hour, queue, kind, enqueued, started)
select hour, queue, kind, runs, runs from holdfast.counter_hour;
insert into holdfast.job (id, created_at, priority, max_attempts, kind, queue, args)
select n, '2026-01-01Z', 5, 20, 'mail', 'mail', '{}' from generate_series(1, 200000) n;
insert into holdfast.scheduled (job, run_at, attempt)
select n, timestamptz '2026-01-01Z' + n * interval '1 second', 1 from generate_series(1, 200000) n;
insert into holdfast.plan (schedule, scope, plan_time, decided_at, keep_until, decision)
select 'report', '', timestamptz '2026-01-01Z' - n * interval '1 minute', now(), now(), 'missed'
  from generate_series(1, 100000) n;
update holdfast.enqueue_mark set job = 100000;
"""


@pytest.fixture(scope="module")
def connection(server_dsn: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    with a_copy(server_dsn, template, "figures") as connection:
        connection.execute(FILL)
        connection.execute("analyze")
        run_on_blocking(connection, plan_as_written())
        yield connection


@pytest.mark.parametrize(
    ("asked", "most_rows"),
    [
        (figures(SCHEMA, since=HOUR, resolution=MINUTE, now=NOW), 10_000),
        (figures(SCHEMA, since=24 * HOUR, resolution=24 * HOUR, now=NOW), 5_000),
        (figures(SCHEMA, since=HOUR, resolution=MINUTE, kind="kind_3", now=NOW), 10_000),
        (overview(SCHEMA, now=NOW), 11_000),
        (overview_plans(SCHEMA, now=NOW), 11_000),
        (count_enqueued(SCHEMA, mark=100_000, top=100_100), 1_000),
    ],
    ids=["minutes", "hours", "a kind", "overview", "plans", "count of new jobs"],
)
def test_no_question_reads_more_than_its_range(
    asked: Statement[Any], most_rows: int, connection: psycopg.Connection[Any]
) -> None:
    for node in explained(connection, asked, "fresh").nodes:
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        assert rows * node["Actual Loops"] < most_rows, node
