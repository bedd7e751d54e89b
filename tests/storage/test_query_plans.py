"""EXPLAIN guards: with a million ready, scheduled and finished jobs every statement reads what it needs.

Blocks are counted, not time, with statistics that are right, missing and wrong: tables that are filled and
emptied all day have all three.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.retention import Retention
from holdfast.domain.ring import SEGMENTS
from holdfast.domain.transition import CompleteJob, FailJob, RetryJob
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.conversation import Conversation
from holdfast.postgres.statement import Statement
from holdfast.storage import (
    chores,
    doctor,
    failures,
    job_lookup,
    job_verbs,
    jobs,
    jobs_listed,
    kinds,
    logs,
    notices,
    operators,
    runs,
    tailing,
    unserved,
    workers,
)
from holdfast.storage.completions import RunToComplete, complete_all, complete_one
from holdfast.storage.explaining import circumstances
from holdfast.storage.fsck import CHECKS
from holdfast.storage.session import plan_as_written
from holdfast.storage.statistics import count_enqueued
from storage.backlog import FINGERPRINT, MILLION, NOW, fill
from storage.query_plans import Plan, Statistics, explained
from support.databases import a_copy
from support.engine import SCHEMA

BIG = {
    *("job", "ready_0", "ready_1", "ready_2", "ready_3", "scheduled", "ledger", "dead", "notice"),
    *("failure_group", "failure_count", "failure_tally", "run_log", "unique_key"),
}
STATISTICS: tuple[Statistics, ...] = ("fresh", "none", "of an emptied table")


@pytest.fixture(scope="module")
def connection(server_dsn: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection with Holdfast's settings. Every test rolls back what it did."""
    with a_copy(server_dsn, template, "plans") as connection:
        fill(connection)
        run_on_blocking(connection, plan_as_written())
        connection.execute("set statement_timeout = '30s'")
        yield connection


def first(conversation: Conversation[Any]) -> Statement[Any]:
    """The statement that a conversation opens with."""
    return next(conversation)


@dataclass(frozen=True, slots=True)
class Guard:
    """What a statement may touch: blocks in all, and the indexes that its contract names."""

    statement: Statement[Any]
    blocks: int
    indexes: frozenset[str]
    sorted: int = 100


def guard(statement: Statement[Any], blocks: int, *indexes: str, rows: int = 100) -> Guard:
    return Guard(statement, blocks, frozenset(indexes), rows)


READY = tuple(f"ready_{segment}_pkey" for segment in SEGMENTS)
READY_DEADLINE = tuple(f"ready_{segment}_deadline_at_idx" for segment in SEGMENTS)
LEASED = 3 * MILLION + 50  # a job of worker 1
PLAIN = LEASED + 50  # another, whose lease has its kind and its queue
NO = Failure("no")


def completed(run: int, *, is_plain: bool) -> Statement[runs.Answer]:
    """Of the run that has the same number as its job."""
    one = RunToComplete(1, run, run, CompleteJob(None, None), is_plain)
    return complete_one(SCHEMA, one, retention=Retention(), now=NOW)


def settlement(transition: Any, n: int = 0) -> runs.Settlement:
    return runs.Settlement(1, LEASED + 50 * n, LEASED + 50 * n, transition)


ENDED = 2 * MILLION
BEHIND = (5, MILLION // 2)
TOLD = notices.Notice(
    1, 1, NOW, NOW, None, 1, "failed", 1, 1, 5, 1, "mail", "default", None, None, None, None
)
WAITING = [*range(1, 6), *range(MILLION + 1, MILLION + 6)]


def keyed(job: int, debounce: timedelta | None = timedelta(seconds=5)) -> NewJob:
    """To be put in the place of this job, which has its unique key."""
    return NewJob(Policy("mail"), unique_key=f"k{job}", debounce=debounce)


def listed(text: str, source: jobs_listed.Source, window: int = 2_000) -> Statement[jobs_listed.ListedJob]:
    """A page of 50, of one source."""
    job_filter = parse_filter(text)
    assert source in jobs_listed.sources(job_filter)
    return jobs_listed.list_jobs(SCHEMA, job_filter, source=source, limit=50, window=window, now=NOW)


LISTS = {
    "list all": guard(listed("", "latest", 50), 15_000, "job_pkey", "ledger_pkey", "lease_pkey"),
    "list of a kind": guard(listed("kind:nothing", "latest", 50_000), 6_000, "job_pkey", rows=50_000),
    "list by an argument": guard(
        listed("args.customer:42", "latest", 50_000), 6_000, "job_pkey", rows=50_000
    ),
    "list ready": guard(listed("state:ready", "ready", 50), 4_000, *READY, rows=1_000),
    "list ready of a kind": guard(listed("state:ready kind:a", "ready"), 30_000, *READY, rows=20_200),
    "list scheduled": guard(listed("state:scheduled", "scheduled"), 12_000, "scheduled_pkey", rows=2_000),
    "list failed": guard(listed("state:failed", "failed", 50), 2_500, "dead_pkey", "ledger_pkey"),
    "list failed by error": guard(
        listed("state:failed error:x", "failed"), 12_000, "dead_pkey", "ledger_pkey", rows=2_000
    ),
    "list succeeded": guard(listed("state:succeeded", "ended"), 3_000, "ledger_pkey", rows=2_000),
    "list cancelled": guard(listed("state:cancelled", "stopped"), 500, "ledger_stopped"),
    "list running": guard(listed("state:running", "running", 50), 20_000, "lease_pkey", rows=3_000),
    "list waiting": guard(listed("state:waiting", "waiting", 50), 500),
    "list by id": guard(listed("id:5,1000005,2000010", "ids", 50), 1_000, "job_pkey"),
    "list of a flow": guard(listed("flow:5", "children"), 500),
    "list of a schedule": guard(listed("schedule:nightly", "fired"), 500),
    "explain": guard(
        circumstances(
            SCHEMA, job=5, kind="mail", queue="default", priority=5, worker=None, unique_key="k", now=NOW
        ),
        8_000, *READY, "lease_pkey", rows=6_000,
    ),
    "job in full": guard(jobs_listed.job_detail(SCHEMA, 5), 250, "job_pkey", "ledger_pkey"),
}  # fmt: skip

_CHECKS = {check.of: check for check in CHECKS}


def look(of: str, cursor: dict[str, object], blocks: int, *indexes: str) -> Guard:
    """At 1,000 rows in the middle of a table, as fsck does."""
    return guard(_CHECKS[of].sights(SCHEMA, cursor, limit=1_000), blocks, *indexes, rows=2_000)


_IN_READY = {"queue": "default", "priority": 5, "after": MILLION // 2, "segment": 0}
LOOKS = {
    "fsck of ended jobs": look("jobs", {"after": ENDED}, 8_000, "job_pkey", "ledger_pkey"),
    # Ten priorities in five segments for each of them.
    "fsck of waiting jobs": look("jobs", {"after": MILLION // 2}, 350_000, "job_pkey", *READY),
    "fsck of ready": look("ready", _IN_READY, 15_000, *READY),
    "fsck of scheduled": look("scheduled", {"after": MILLION}, 15_000, "scheduled_pkey"),
    "fsck of ends": look("ends", {"after": ENDED}, 15_000, "ledger_pkey"),
    "fsck of dead letters": look("dead letters", {"after": ENDED}, 15_000, "dead_pkey", "ledger_pkey"),
    "fsck of leftovers": look("ledger", {"after": ENDED}, 15_000, "ledger_pkey", "job_pkey"),
}

GUARDS = {
    **LISTS,
    **LOOKS,
    # Planned inside of the function, so these count what the planner reads of the catalogue too.
    "backlog": guard(Statement("backlog", "select holdfast.backlog('default')", {}, int), 2_500),
    "backlog of few": guard(Statement("backlog", "select holdfast.backlog('default', 10)", {}, int), 1_000),
    "claim of 10": guard(
        runs.claim(SCHEMA, worker=1, queue="default", kinds=["mail"], limit=10, now=NOW),
        330, *READY, "job_pkey", "worker_pkey",
    ),
    "claim of 100": guard(
        runs.claim(SCHEMA, worker=1, queue="default", kinds=["mail"], limit=100, now=NOW),
        2_500, *READY, "job_pkey", "worker_pkey",
    ),
    "claim behind a job in the middle": guard(
        runs.claim(SCHEMA, worker=1, queue="default", kinds=["mail"], limit=10, after=BEHIND, now=NOW),
        330, *READY, "job_pkey", "worker_pkey",
    ),
    "claim from an empty queue": guard(
        runs.claim(SCHEMA, worker=1, queue="nothing", kinds=["mail"], limit=10, now=NOW), 100, *READY
    ),
    "look": guard(runs.look(SCHEMA, queues=["nothing", "default"], kinds=["mail"], now=NOW), 200, *READY),
    "gathered": guard(
        runs.gathered(
            SCHEMA, queue="default", most={"mail": 100, "nothing": 100}, window=1_000, now=NOW
        ),
        400, *READY,
    ),
    "enqueue": guard(jobs.enqueue(SCHEMA, [NewJob(Policy("mail"))], notify=True, now=NOW), 200),
    "unique enqueue": guard(
        jobs.enqueue(SCHEMA, [NewJob(Policy("mail"), unique_key="k")], notify=True, now=NOW), 200
    ),
    "enqueue that takes keys over": guard(
        jobs.enqueue(
            SCHEMA, [keyed(n) for n in WAITING], taken_from=dict.fromkeys(WAITING), notify=True, now=NOW
        ),
        800,
    ),
    "replace": guard(
        jobs.replace(SCHEMA, [(n, keyed(n, None)) for n in WAITING], notify=True, now=NOW),
        2_300, *READY, "scheduled_pkey", "job_pkey",
    ),
    "debounce": guard(
        jobs.replace(SCHEMA, [(n, keyed(n)) for n in WAITING], notify=True, now=NOW),
        2_400, *READY, "scheduled_pkey", "job_pkey", "ledger_pkey",
    ),
    "bursts of 10": guard(jobs.bursts(SCHEMA, WAITING), 200, "job_pkey"),
    "claim of 10 that are unique": guard(
        runs.claim(SCHEMA, worker=1, queue="keyed", kinds=["mail"], limit=10, now=NOW),
        400, *READY, "job_pkey", "worker_pkey", "superseded_pkey",
    ),
    "prune of 100 keys": guard(
        chores.prune_keys(SCHEMA, limit=100, now=NOW), 2_500, "unique_key_until", "job_pkey", "ledger_pkey"
    ),
    "settle of 10": guard(
        runs.settle(
            SCHEMA, [settlement(CompleteJob("1", None), n) for n in range(10)], retention=Retention(), now=NOW
        ),
        400, "lease_pkey", "job_pkey",
    ),
    "retry and fail": guard(
        runs.settle(
            SCHEMA,
            [settlement(RetryJob(runs.TIMEOUT, NO)), settlement(FailJob(NO), 1)],
            retention=Retention(),
            now=NOW,
        ),
        500, "lease_pkey", "job_pkey",
    ),
    "settle again": guard(
        runs.settle(
            SCHEMA,
            [runs.Settlement(1, ENDED + 1, ENDED + 1, CompleteJob(None, None))],
            retention=Retention(),
            now=NOW,
        ),
        120, "lease_pkey", "ledger_pkey",
    ),
    "complete one": guard(
        completed(LEASED, is_plain=False),
        120, "lease_pkey",
    ),
    "complete one whose lease says that it is plain": guard(
        completed(PLAIN, is_plain=True),
        120, "lease_pkey",
    ),
    "complete one again": guard(
        completed(ENDED + 1, is_plain=True),
        120, "lease_pkey", "ledger_pkey",
    ),
    "complete all of a batch": guard(
        complete_all(
            SCHEMA,
            [RunToComplete(1, LEASED + n, LEASED + n, CompleteJob(None, None), False) for n in range(10)],
            retention=Retention(),
            now=NOW,
        ),
        400, "lease_pkey", "job_pkey",
    ),
    "save": guard(runs.save(SCHEMA, [runs.Saving(1, LEASED, LEASED, "1")], now=NOW), 120, "lease_pkey"),
    "renew with 100 runs": guard(
        runs.renew(SCHEMA, worker=1, lease=workers.LEASE, runs=[LEASED], now=NOW),
        300, "lease_pkey", "worker_pkey", "notice_pkey", rows=200,
    ),
    "notice take of 100": guard(
        notices.take_notices(SCHEMA, worker=1, kinds=["pay", "mail", "nothing"]), 2_500, "notice_pkey"
    ),
    "notice drop": guard(notices.drop_notice(SCHEMA, TOLD), 50, "notice_pkey"),
    "notice overdue, 100 at once": guard(
        notices.overdue_notices(SCHEMA, limit=100, now=NOW), 3_500, "notice_said_at"
    ),
    "promote of 100": guard(
        chores.promote(SCHEMA, limit=100, now=NOW), 3_000, "scheduled_run_at", "job_pkey"
    ),
    "expire of 50": guard(
        chores.expire(SCHEMA, limit=50, retention=Retention(), now=NOW),
        4_000, *READY_DEADLINE, "scheduled_deadline", "job_pkey"
    ),
    "rescue of 100": guard(
        first(chores.rescue(SCHEMA, luck=0.5, limit=100, retention=Retention())),
        1_500, "lease_pkey", "job_pkey"
    ),
    "prune of 100": guard(
        chores.prune(SCHEMA, limit=100, now=NOW),
        # Postgres 14 to 16 may look for dead ones along dead_died_at, while statistics say that it is empty.
        7_000, "ledger_keep_until", "ledger_pkey", "job_pkey", "dead_pkey",
    ),
    "next due": guard(
        chores.next_due(SCHEMA, now=NOW), 150, "scheduled_run_at", "scheduled_deadline", *READY_DEADLINE
    ),
    "next due from a hint": guard(
        chores.next_due(SCHEMA, since=NOW, now=NOW),
        150, "scheduled_run_at", "scheduled_deadline", *READY_DEADLINE,
    ),
    "since when a job has not fitted": guard(
        job_lookup.misfit_for(SCHEMA, ENDED + 17, now=NOW), 20, "ledger_pkey"
    ),
    "find a ready job": guard(job_lookup.find(SCHEMA, 17), 250, "job_pkey", "ledger_pkey", "scheduled_pkey"),
    "find an ended job": guard(job_lookup.find(SCHEMA, ENDED + 17), 250, "job_pkey", "ledger_pkey"),
    "history": guard(job_lookup.history(SCHEMA, ENDED + 17), 60, "ledger_pkey"),
    "cancel of 10": guard(
        first(operators.cancel(SCHEMA, WAITING, now=NOW, retention=Retention())),
        3_500, *READY, "scheduled_pkey", "lease_pkey", "job_pkey", rows=1_000,
    ),
    "reprioritise of 10": guard(
        first(operators.reprioritise(SCHEMA, WAITING, priority=0)),
        3_500, *READY, "scheduled_pkey", "job_pkey", rows=1_000,
    ),
    "queue list": guard(
        operators.queues(SCHEMA, now=NOW),
        12_000, *READY, "ready_parked_pkey", "scheduled_run_at", "job_pkey", rows=10_010,
    ),
    "queue list of one": guard(
        operators.queues(SCHEMA, name="nothing", now=NOW), 1_000, *READY, "ready_parked_pkey"
    ),
    "unserved": guard(
        unserved.unserved(SCHEMA, now=NOW), 2_500, *READY, "ready_parked_pkey", "ready_parked_kind"
    ),
    "resume of 10": guard(
        first(operators.retry_dead(SCHEMA, [ENDED + 10 * n for n in range(1, 11)], now=NOW)),
        700, "dead_pkey", "ledger_pkey", "job_pkey",
    ),
    "delete of 10": guard(
        first(job_verbs.delete(SCHEMA, [ENDED + 10 * n for n in range(1, 11)])),
        3_000, *READY, "dead_pkey", "ledger_pkey", "job_pkey",
    ),
    "reschedule of 10": guard(
        first(job_verbs.reschedule(SCHEMA, WAITING, delay=timedelta(hours=1), now=NOW)),
        3_000, *READY, "scheduled_pkey", "job_pkey", rows=1_000,
    ),
    "the newest failures": guard(
        failures.newest_failures(SCHEMA, limit=50, window=50, now=NOW),
        1_000, "failure_group_last_seen_at", "failure_count_pkey",
    ),
    "the newest failures of a kind": guard(
        failures.newest_failures(SCHEMA, kind="pay", limit=50, now=NOW),
        14_000, "failure_group_last_seen_at", "failure_count_pkey", rows=1_000,
    ),
    "the most frequent failures": guard(
        failures.frequent_failures(SCHEMA, limit=50, now=NOW),
        14_000, "failure_group_last_seen_at", "failure_count_pkey", rows=1_000,
    ),
    "one group of failures": guard(
        failures.failure_group(SCHEMA, FINGERPRINT, now=NOW), 50, "failure_group_pkey", "failure_count_pkey"
    ),
    "a count of dead letters up to 10,000": guard(
        failures.count_dead(SCHEMA, FINGERPRINT), 400, "dead_fingerprint"
    ),
    "a page of the dead letters of a group": guard(
        jobs_listed.list_jobs(
            SCHEMA, JobFilter(failures=(FINGERPRINT, "another")), source="group", limit=50, window=50, now=NOW
        ),
        1_500, "dead_fingerprint", "job_pkey", "ledger_pkey",
    ),
    "fold of 100 failures": guard(
        failures.fold_failures(SCHEMA, limit=100),
        3_500, "failure_tally_pkey",
    ),
    "prune of 100 that an operator narrows": guard(
        chores.prune_chosen(
            SCHEMA, limit=100, page=1_000, states=["succeeded"], older_than=timedelta(0), now=NOW
        ),
        6_000, "ledger_keep_until", rows=1_000,
    ),
    "prune that an operator narrows to what nobody has": guard(
        chores.prune_chosen(SCHEMA, limit=100, page=1_000, states=["expired"], now=NOW),
        3_000, "ledger_keep_until", rows=1_000,
    ),
    "is any left behind": guard(chores.is_any_left_behind(SCHEMA), 300, "lease_pkey"),
    "count of what may be pruned": guard(
        chores.count_prunable(SCHEMA, cap=1_000, page=1_000, now=NOW), 3_000, "ledger_keep_until", rows=1_000
    ),
    "count of what may be pruned, of which nobody has any": guard(
        chores.count_prunable(SCHEMA, cap=1_000, page=1_000, states=["expired"], now=NOW),
        3_000, "ledger_keep_until", rows=1_000,
    ),
    "prune of failures": guard(
        failures.prune_failures(SCHEMA, now=NOW), 60, "failure_count_began_at", "failure_group_last_seen_at"
    ),
    "move of 10": guard(
        first(job_verbs.move(SCHEMA, WAITING, queue="elsewhere")),
        3_000, *READY, "scheduled_pkey", "job_pkey", rows=1_000,
    ),
    "log put of 100": guard(
        logs.put_lines(SCHEMA, [logs.LogLines(n, n, 7, 9, "[]") for n in range(ENDED + 1, ENDED + 101)]),
        1_500, "job_pkey",
    ),
    "log trim": guard(logs.trim_lines(SCHEMA, [logs.LogTrim(ENDED + 5, ENDED + 5, 10)]), 50, "run_log_pkey"),
    "log of a job": guard(
        logs.read_lines(SCHEMA, ENDED + 5, after=(ENDED + 5, 200), limit=20), 60, "run_log_pkey"
    ),
    "log of 100 jobs": guard(
        tailing.lines_since(SCHEMA, {n: (n, 4) for n in range(ENDED + 1, ENDED + 101)}, NOW, limit=100),
        1_000, "run_log_pkey",
    ),
    "ends lately": guard(
        tailing.ended_since(
            SCHEMA, NOW - timedelta(seconds=50), keeps=[timedelta(), timedelta(hours=1)], limit=100, now=NOW
        ),
        400, "ledger_keep_until",
    ),
    "runs of 100 jobs": guard(
        tailing.runs_since(SCHEMA, {n: n % 50 + 1 for n in range(LEASED - 50, LEASED + 50)}, NOW),
        1_500, "lease_pkey", "ledger_pkey",
    ),
    "log of a job, newest": guard(logs.newest_lines(SCHEMA, ENDED + 5, limit=20), 60, "run_log_pkey"),
    "known tags": guard(kinds.known_tags(SCHEMA, searched=1_000), 1_200, "job_pkey", rows=1_000),
    "count of 100 new jobs": guard(
        count_enqueued(SCHEMA, mark=0, top=MILLION, limit=100), 150, "job_pkey"
    ),
    "how the work goes, for doctor": guard(
        doctor.work_facts(SCHEMA, now=NOW), 150, "scheduled_run_at", "ledger_keep_until"
    ),
    "worker list": guard(
        workers.workers(SCHEMA, now=NOW), 4_500, "worker_pkey", "lease_pkey", "job_pkey"
    ),
    "worker list of one": guard(
        workers.workers(SCHEMA, worker=7, runs=1_000, now=NOW),
        1_000, "worker_pkey", "lease_pkey", "job_pkey",
    ),
}  # fmt: skip

# One look at a view whose joins must also serve people who read all of it: of a ledger whose statistics say
# that it is empty it may take the wrong index, until the next analyze; before Postgres 17 also with none.
FINDS = ("find a ready job", "find an ended job")
NOT_GUARDED = {(name, "of an emptied table") for name in FINDS}
NOT_GUARDED_BEFORE_17 = {(name, "none") for name in FINDS}


@pytest.mark.parametrize(
    ("name", "statistics"), [(n, s) for n in GUARDS for s in STATISTICS if (n, s) not in NOT_GUARDED]
)
def test_a_statement_touches_a_few_blocks_of_millions(
    connection: psycopg.Connection[Any], name: str, statistics: Statistics
) -> None:
    if connection.info.server_version < 170000 and (name, statistics) in NOT_GUARDED_BEFORE_17:
        pytest.skip("this Postgres may take the wrong index until it has statistics")
    connection.execute("vacuum holdfast.notice")  # of what the others wrote there and took back
    guarded = GUARDS[name]
    plan = explained(connection, guarded.statement, statistics)
    assert plan.scanned & BIG == set()
    assert plan.most_sorted <= guarded.sorted
    assert guarded.indexes - plan.indexes == set()
    assert plan.blocks <= guarded.blocks, plan.heaviest


@pytest.mark.parametrize("closed", SEGMENTS)
def test_a_claim_is_planned_without_the_segment_that_it_leaves_out(
    connection: psycopg.Connection[Any], closed: int
) -> None:
    """Not skipped at run time: absent from the plan, and so neither read nor locked."""
    statement = runs.claim(
        SCHEMA, worker=1, queue="default", kinds=["mail"], limit=10, closed=closed, now=NOW
    )
    plan = explained(connection, statement, "fresh")
    segments = {name for name in plan.relations if name.startswith("ready_")}
    assert segments == {f"ready_{segment}" for segment in SEGMENTS if segment != closed}


def test_the_guards_see_what_they_guard_against(connection: psycopg.Connection[Any]) -> None:
    """So that a green guard means something."""
    plain = Statement("plain", "select job from holdfast.ready order by kind, job limit 10", {}, int)
    plan: Plan = explained(connection, plain, "fresh")
    assert plan.most_sorted > 100_000
    assert plan.blocks > 5_000
