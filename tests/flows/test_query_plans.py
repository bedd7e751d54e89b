"""EXPLAIN guards: among 200,000 waiting flows, with checkpoints, calls and events, each statement reads what
it needs, whatever the statistics say.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.domain.job import NewJob, Policy
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.statement import Statement
from holdfast.storage import flows, flows_shown, job_lookup, machines
from holdfast.storage.flows import Fence, Wait, Writing
from holdfast.storage.machines import Move
from holdfast.storage.session import plan_as_written
from storage.backlog import NOW
from storage.query_plans import Statistics, explained
from support.databases import a_copy
from support.engine import SCHEMA

MANY = 200_000
BIG = {"job", "checkpoint", "waiting", "wait", "event"}
STATISTICS: tuple[Statistics, ...] = ("fresh", "none", "of an emptied table")

# Flows 1 to MANY wait, each for an event and for a child; the hundred after them run.
_FILL = f"""
insert into holdfast.job (id, created_at, priority, max_attempts, kind, queue, args, parent)
select n, '2026-01-01Z', 5, 20, 'flow', 'default', '{{}}',
       case when n > {MANY + 1000} then n - {MANY + 1000} end
  from generate_series(1, {2 * MANY + 1000}) n;
select setval('holdfast.job_id_seq', {3 * MANY});
insert into holdfast.waiting (job, since, until)
select n, '2026-01-01Z', timestamptz '2026-01-01Z' + (n - 100) * interval '1 minute'
  from generate_series(1, {MANY}) n;
insert into holdfast.wait (job, name, key, is_eager)
select n, w.name, case w.name when 'event' then 'key ' || n end, false
  from generate_series(1, {MANY}) n, (values ('event'), ('call')) w (name);
insert into holdfast.checkpoint (job, name, kind, place, written_at, is_done, child, bunch)
select n, k.kind, k.kind, 1, '2026-01-01Z'::timestamptz, k.kind = 'step',
       case k.kind when 'call' then n + {MANY + 1000} end, case k.kind when 'call' then 'call' end
  from generate_series(1, {MANY}) n, (values ('step'), ('event'), ('call')) k (kind);
insert into holdfast.event (emitted_at, keep_until, key)
select '2026-01-01Z', '2026-02-01Z', 'no flow waits for ' || n from generate_series(1, {MANY}) n;
insert into holdfast.lease (worker, job, run, started_at, timeout_at, attempt)
select 1, {MANY} + n, n, '2026-01-01Z', '2026-01-02Z', 1 from generate_series(1, 100) n;
insert into holdfast.event (emitted_at, keep_until, key)
select '2026-01-01Z', '2026-02-01Z', 'key ' || n from generate_series(1, 10) n;
insert into holdfast.wakeup (key) select 'key ' || n from generate_series(1, 10) n;
insert into holdfast.wakeup (job, child) select n, n + {MANY + 1000} from generate_series(11, 20) n;
insert into holdfast.ledger (job, run, finished_at, outcome, attempt, is_final, queue, kind)
select n + {MANY + 1000}, n, '2026-01-01Z', 'succeeded', 1, true, 'default', 'mail'
  from generate_series(11, 20) n;
"""


@pytest.fixture(scope="module")
def connection(server_dsn: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    with a_copy(server_dsn, template, "flow_plans") as connection:
        connection.execute(_FILL.encode())
        connection.execute("analyze")
        run_on_blocking(connection, plan_as_written())
        connection.execute("set statement_timeout = '30s'")
        yield connection


def fence(number: int = 1) -> Fence:
    return Fence(1, MANY + number, number)


def wait(*waits: Wait) -> Statement[Any]:
    """The second statement, behind the locks, if there are any."""
    conversation = flows.wait(SCHEMA, waits, now=NOW)
    statement = next(conversation)
    return conversation.send([]) if statement.name == "flow_lock" else statement


GUARDS: dict[str, tuple[Statement[Any], int, set[str]]] = {
    "load of 10": (flows.load(SCHEMA, range(1, 11), now=NOW), 120, {"checkpoint_pkey"}),
    "a checkpoint": (
        flows.checkpoint(SCHEMA, [Writing(fence(), "a", "step", "1")], now=NOW),
        40,
        {"lease_pkey"},
    ),
    "10 checkpoints": (
        flows.checkpoint(SCHEMA, [Writing(fence(n), "a", "step", "1") for n in range(1, 11)], now=NOW),
        300,
        {"lease_pkey"},
    ),
    "10 sleeps": (
        wait(*(Wait(fence(n), "rest", "sleep", timedelta(hours=1)) for n in range(1, 11))),
        800,
        {"lease_pkey", "checkpoint_pkey"},
    ),
    "10 waits for an event": (
        wait(*(Wait(fence(n), "packed", "event", key=f"packed {n}") for n in range(1, 11))),
        900,
        {"lease_pkey", "event_key"},
    ),
    "10 waits for children": (
        wait(*(Wait(fence(n), "calls", "call") for n in range(1, 11))),
        900,
        {"lease_pkey", "checkpoint_pkey"},
    ),
    "call of 10": (
        flows.call(
            SCHEMA,
            fence(),
            [NewJob(Policy("mail"))] * 10,
            [f"mail[{n}]" for n in range(10)],
            bunch="mail",
            now=NOW,
        ),
        900,
        {"lease_pkey"},
    ),
    "take wake-ups": (
        flows._WAKE_TAKE.with_params(SCHEMA, since=0, limit=500),
        100,
        {"wakeup_pkey"},
    ),
    "wake 20": (
        flows._WAKE.with_params(SCHEMA, ids=list(range(1, 21)), now=NOW),
        2_000,
        {"wait_key", "event_key", "checkpoint_child", "waiting_pkey"},
    ),
    "time out 100": (flows.time_out(SCHEMA, now=NOW), 4_000, {"waiting_until"}),
    "sweep": (flows.sweep(SCHEMA), 20_000, {"checkpoint_child", "wait_key"}),
    "emit": (flows.emit(SCHEMA, [("packed", None)], notify=True, now=NOW), 100, set()),
    "prune events": (flows.prune_events(SCHEMA, now=NOW), 20, {"event_keep_until"}),
    "load of 10 machines": (
        machines.load_steps(SCHEMA, range(1, 11)),
        120,
        {"checkpoint_open"},
    ),
    "10 moves of machines": (
        machines.move(SCHEMA, [Move(fence(n), "a", 1, "{}", "b", "{}") for n in range(1, 11)], now=NOW),
        900,
        {"lease_pkey", "job_pkey"},
    ),
    "the steps of a flow": (flows_shown.steps(SCHEMA, 77), 100, {"checkpoint_pkey", "wait_pkey"}),
    "a page of 20 flows": (
        flows_shown.flows(SCHEMA, known=["flow"], limit=20),
        3_000,
        {"checkpoint_pkey", "job_pkey", "waiting_pkey"},
    ),
    "find a waiting flow": (job_lookup.find(SCHEMA, 77), 150, {"waiting_pkey"}),
}


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", GUARDS)
def test_a_statement_of_flows_touches_a_few_blocks_of_many(
    connection: psycopg.Connection[Any], name: str, statistics: Statistics
) -> None:
    statement, blocks, indexes = GUARDS[name]
    plan = explained(connection, statement, statistics)
    assert plan.scanned & BIG == set()
    assert indexes - plan.indexes == set()
    assert plan.blocks <= blocks
