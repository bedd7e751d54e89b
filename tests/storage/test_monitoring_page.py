"""The queries of docs/how-to/monitor.md run as a role that can only read, and none reads a big table."""

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from holdfast.postgres.statement import Statement
from storage.query_plans import explained
from support.databases import a_copy
from support.doc_examples import DOCS

PAGE = (DOCS / "how-to/monitor.md").read_text("utf-8")
QUERIES = re.findall(r"^## ([^\n]+)\n|```sql\n(.*?);\n```", PAGE, re.MULTILINE | re.DOTALL)

# Enough that a node of a plan that reads one of these tables from end to end stands out.
ROWS = 200_000
# A capped count reads 1,000 rows of each of three queues, and the partitions are merged.
MOST_ROWS = 10_000

FILL = f"""
insert into holdfast.job (id, created_at, priority, max_attempts, kind, queue, args)
select n, now(), n % 10, 20, 'mail', 'mail', '{{}}' from generate_series(1, {ROWS}) n;
insert into holdfast.ready (job, ready_at, attempt, priority, segment, queue, kind)
select n, now(), 0, n % 10, n % 4, case when n % 3 = 0 then 'mail' else 'pdf' end, 'mail'
  from generate_series(1, {ROWS}) n;
insert into holdfast.ready (job, ready_at, attempt, priority, segment, queue, kind)
select n, now(), 0, n % 10, 9, 'old', 'gone' from generate_series({ROWS} + 1, 2 * {ROWS}) n;
insert into holdfast.scheduled (job, run_at, attempt)
select n, now() + n * interval '1 second', 1 from generate_series(1, {ROWS}) n;
insert into holdfast.ledger
       (job, run, started_at, finished_at, worker, outcome, attempt, is_final, queue, kind)
select n, n, now(), now(), 1, 'failed', 1, true, 'mail', 'mail' from generate_series(1, {ROWS}) n;
insert into holdfast.dead (job, run, died_at)
select n, n, now() - n * interval '1 second' from generate_series(1, {ROWS}) n;
insert into holdfast.counter (minute, queue, kind, outcome, runs, run_time)
select now() - n * interval '1 minute', 'mail', 'mail', 'failed', 1, '1 s' from generate_series(1, {ROWS}) n;
insert into holdfast.plan (schedule, scope, plan_time, decided_at, keep_until, decision)
select 'report', '', now() - n * interval '1 minute', now(), now(), 'missed'
  from generate_series(1, {ROWS}) n;
"""


each_query = pytest.mark.parametrize("query", [query for _, query in QUERIES if query])


@pytest.fixture(scope="module")
def connection(server_dsn: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    with a_copy(server_dsn, template, "monitoring") as connection:
        connection.execute(FILL)
        connection.execute("analyze")
        yield connection


@pytest.fixture
def reader(connection: psycopg.Connection[Any]) -> Iterator[sql.Identifier]:
    role = sql.Identifier(f"reader_{uuid4().hex[:12]}")
    connection.execute(sql.SQL("create role {}").format(role))
    connection.execute(sql.SQL("grant usage on schema holdfast to {}").format(role))
    connection.execute(sql.SQL("grant select on all tables in schema holdfast to {}").format(role))
    yield role
    connection.execute(sql.SQL("drop owned by {0}; drop role {0}").format(role))


@each_query
def test_a_role_that_can_only_read_may_ask(
    query: str, connection: psycopg.Connection[Any], reader: sql.Identifier
) -> None:
    with connection.transaction():
        connection.execute(sql.SQL("set local role {}").format(reader))
        connection.execute(query.encode())


@each_query
def test_no_query_reads_a_big_table_from_end_to_end(query: str, connection: psycopg.Connection[Any]) -> None:
    asked: Statement[Any] = Statement("monitor", query.replace("%", "%%"), {}, tuple)
    for node in explained(connection, asked, "fresh").nodes:
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        assert rows * node["Actual Loops"] < MOST_ROWS, node


def test_every_alert_leads_to_a_query() -> None:
    links = set(re.findall(r"\]\(#([\w-]+)\)", PAGE))
    headings = {title.lower().replace(" ", "-") for title, _ in QUERIES if title}
    assert links
    assert links <= headings
