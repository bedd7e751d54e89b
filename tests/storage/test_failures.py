"""Groups of failures: settles tally them, the leader folds them, counts move with the clock."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.fingerprint import identified
from holdfast.domain.job import Policy
from holdfast.domain.retention import FAILURE_COUNTS, FAILURE_GROUPS, Retention
from holdfast.domain.transition import CancelJob, CompleteJob, FailJob, ReleaseJob, RetryJob, SnoozeJob
from holdfast.storage import chores, failures, operators, runs, workers
from support.engine import SCHEMA, Engine
from support.waiting import block_until

LATER = timedelta(hours=1)


def failed(message: str = "order 1 refused", kind: str = "mail") -> Failure:
    return identified(Failure(message, type="ValueError"), kind)


def end(engine: Engine, *transitions: Any, kind: str = "mail", queue: str = "default") -> list[int]:
    """Jobs that run and end so, in one batch; returns them."""
    worker = engine.worker(queues=(queue,), kinds=(kind,))
    jobs = [engine.enqueue(Policy(kind, queue)) for _ in transitions]
    claimed = {row.job: row for row in engine.claim(worker, queue=queue, kinds=(kind,), limit=100)}
    settlements = [
        runs.Settlement(worker, job, claimed[job].run, transition)
        for job, transition in zip(jobs, transitions, strict=True)
    ]
    engine.run(runs.settle(SCHEMA, settlements, now=engine.now, retention=Retention()))
    return jobs


def fold(engine: Engine) -> int:
    return engine.one(failures.fold_failures(SCHEMA)).folded


def pruned(engine: Engine) -> int:
    return engine.one(failures.prune_failures(SCHEMA, now=engine.now))


def listed(engine: Engine, **asked: Any) -> list[failures.FailureRow]:
    rows = engine.run(failures.newest_failures(SCHEMA, now=engine.now, **asked))
    return [row for row in rows if row.fingerprint is not None]


def counts(row: failures.FailureRow) -> tuple[int, int, int]:
    return row.last_hour, row.last_day, row.last_week


def test_a_settle_tallies_each_group_once_and_only_what_failed(engine: Engine) -> None:
    no = failed()
    jobs = end(
        engine,
        CompleteJob(None, None),
        RetryJob(LATER, no),
        FailJob(failed("order 7 refused")),
        FailJob(failed("card expired")),
        SnoozeJob(LATER, no),
        ReleaseJob(),
        CancelJob(no),
    )
    tallies = engine.connection.execute(
        "select fingerprint, runs, job, kind, queue, type, message from holdfast.failure_tally order by runs"
    ).fetchall()
    assert tallies == [
        (failed("card expired").fingerprint, 1, jobs[3], "mail", "default", "ValueError", "card expired"),
        (no.fingerprint, 2, jobs[2], "mail", "default", "ValueError", "order 7 refused"),
    ]
    dead = engine.connection.execute("select job, fingerprint from holdfast.dead order by job").fetchall()
    assert dead == [(jobs[2], no.fingerprint), (jobs[3], failed("card expired").fingerprint)]


def test_successes_are_not_tallied(engine: Engine) -> None:
    end(engine, CompleteJob(None, None), CompleteJob("1", None))
    assert fold(engine) == 0


def test_a_settle_that_is_sent_again_counts_nothing_more(engine: Engine) -> None:
    worker = engine.worker()
    job = engine.enqueue()
    [claimed] = engine.claim(worker)
    for expected in ("settled", "already"):
        assert engine.settle(worker, claimed, FailJob(failed())).answer == expected
    assert fold(engine) == 1
    [group] = listed(engine)
    assert (group.job, group.last_hour) == (job, 1)


def test_folding_twice_counts_once(engine: Engine) -> None:
    end(engine, FailJob(failed()))
    assert [fold(engine), fold(engine)] == [1, 0]
    [group] = listed(engine)
    assert counts(group) == (1, 1, 1)


def test_two_leaders_fold_each_tally_once(engine: Engine, dsn: str) -> None:
    """The second folds while the first has not committed yet, and waits for the rows that both write."""
    for _ in range(4):
        end(engine, FailJob(failed()))
    with Engine.on(dsn) as other, ThreadPoolExecutor(1) as thread:
        with engine.connection.transaction():
            assert engine.one(failures.fold_failures(SCHEMA, limit=2)).folded == 2
            second = thread.submit(fold, other)
            block_until(lambda: is_waiting(dsn))
        assert second.result(timeout=30) == 2
    [group] = listed(engine)
    assert counts(group) == (4, 4, 4)


def is_waiting(dsn: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as watching:
        found = watching.execute("select count(*) from pg_locks where not granted").fetchone()
    return bool(found and found[0])


def test_counts_move_with_the_clock(engine: Engine) -> None:
    end(engine, FailJob(failed()), FailJob(failed()))
    first = engine.now
    engine.pass_time(timedelta(hours=2))
    end(engine, RetryJob(LATER, failed("order 99 refused")))
    fold(engine)
    [group] = listed(engine)
    assert counts(group) == (1, 3, 3)
    assert (group.first_seen_at, group.last_seen_at, group.message) == (first, engine.now, "order 99 refused")
    engine.pass_time(timedelta(hours=23))
    assert counts(listed(engine, since=timedelta(days=2))[0]) == (0, 1, 3)
    engine.pass_time(timedelta(days=5))
    assert listed(engine, since=timedelta(days=1)) == []
    assert counts(listed(engine)[0]) == (0, 0, 3)
    engine.pass_time(timedelta(days=2))
    assert counts(listed(engine)[0]) == (0, 0, 0)


def test_a_failure_of_59_minutes_ago_is_of_the_last_hour_and_one_of_71_is_not(engine: Engine) -> None:
    engine.pass_time(timedelta(minutes=7))
    end(engine, FailJob(failed()))
    fold(engine)
    for minutes, expected in ((59, 1), (12, 0)):
        engine.pass_time(timedelta(minutes=minutes))
        assert listed(engine)[0].last_hour == expected


def test_counts_and_groups_of_long_ago_are_deleted(engine: Engine) -> None:
    end(engine, FailJob(failed()))
    fold(engine)
    engine.pass_time(FAILURE_COUNTS - timedelta(seconds=1))
    assert pruned(engine) == 0
    engine.pass_time(timedelta(minutes=10))
    assert [pruned(engine), pruned(engine)] == [1, 0]
    assert len(listed(engine)) == 1
    engine.pass_time(FAILURE_GROUPS)
    assert [pruned(engine), pruned(engine)] == [1, 0]
    assert listed(engine) == []


def test_kind_and_queue_choose_what_is_counted(engine: Engine) -> None:
    same = identified(Failure("no", type="E", traceback='  File "/srv/a.py", line 1, in f\n'), "any")
    end(engine, FailJob(same), FailJob(same))
    end(engine, FailJob(same), FailJob(failed("other", "pay")), kind="pay", queue="money")
    fold(engine)
    of_pay = {row.type: row.last_day for row in listed(engine, kind="pay")}
    assert of_pay == {"E": 1, "ValueError": 1}
    [in_default] = listed(engine, queue="default")
    assert (in_default.last_day, in_default.kinds, in_default.queues) == (2, ["mail"], ["default"])
    [both] = [row for row in listed(engine) if row.type == "E"]
    assert (both.last_day, both.kinds, both.queues) == (3, ["mail", "pay"], ["default", "money"])
    assert listed(engine, kind="pay", queue="default") == []


def test_groups_come_newest_first_or_most_frequent_first(engine: Engine) -> None:
    for word, times in (("a", 2), ("b", 3), ("c", 1)):
        end(engine, *[FailJob(failed(word))] * times)
        fold(engine)
        engine.pass_time(timedelta(minutes=1))
    assert [row.message for row in listed(engine)] == ["c", "b", "a"]
    rows = engine.run(failures.frequent_failures(SCHEMA, now=engine.now))
    assert [row.message for row in rows] == ["b", "a", "c"]
    behind = (rows[0].runs, rows[0].fingerprint or "")
    more = engine.run(failures.frequent_failures(SCHEMA, before=behind, limit=1, now=engine.now))
    assert [row.message for row in more] == ["a"]


def test_runs_that_the_leader_takes_away_are_grouped_by_their_kind(engine: Engine) -> None:
    worker = engine.worker(kinds=("mail", "pay"))
    for kind in ("mail", "pay", "pay"):
        engine.enqueue(Policy(kind))
    engine.claim(worker, kinds=("mail", "pay"))
    engine.pass_time(workers.LEASE * 2)
    engine.run(workers.mark_lost(SCHEMA, now=engine.now))
    engine.hold(chores.rescue(SCHEMA, luck=0.5, retention=Retention(), now=engine.now))
    fold(engine)
    groups = {tuple(row.kinds): (row.code, row.last_hour) for row in listed(engine)}
    assert groups == {("mail",): ("lease_lost", 1), ("pay",): ("lease_lost", 2)}


def test_a_job_that_dies_again_of_something_else_changes_its_group(engine: Engine) -> None:
    [job] = end(engine, FailJob(failed()))
    engine.hold(operators.retry_dead(SCHEMA, [job], now=engine.now))
    worker = engine.worker()
    [claimed] = engine.claim(worker)
    engine.settle(worker, claimed, FailJob(failed("card expired")))
    for message, count in (("order 1 refused", 0), ("card expired", 1)):
        assert engine.one(failures.count_dead(SCHEMA, failed(message).fingerprint or "")) == count


@pytest.mark.parametrize("column", ["seen_at", "runs"])
def test_a_tally_that_was_damaged_by_hand_stops_no_fold(engine: Engine, column: str) -> None:
    end(engine, FailJob(failed("fine")))
    end(engine, FailJob(failed("damaged")))
    value = {"seen_at": "'infinity'", "runs": "9223372036854775807"}[column]
    engine.connection.execute(
        f"update holdfast.failure_tally set {column} = {value} where message = 'damaged'".encode()
    )
    assert fold(engine) == 2
