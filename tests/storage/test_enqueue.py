"""Enqueueing: when a job may run, in which order, and in which transaction it is written."""

import gc
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import psycopg
import pytest

from holdfast.domain.backoff import DEFAULT, Fixed, from_json
from holdfast.domain.job import ARGS_LIMIT, NewJob, Policy, args_json
from holdfast.domain.retry import exponential
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.storage import jobs
from support.engine import SCHEMA, START, Engine

A_MINUTE = timedelta(minutes=1)


def wishing() -> Policy:
    """A policy that asks for everything."""
    return Policy(
        "mail",
        queue="slow",
        priority=2,
        max_attempts=7,
        backoff=exponential("1m", cap="1h", jitter=0),
        timeout=timedelta(seconds=90),
        keep=timedelta(days=3),
        on_lost="fail",
        tags=("a", 'with "quotes" and {braces}', "back\\slash, comma", "NULL"),
        origin='{"trace": "abc"}',
    )


@pytest.mark.requirement("S1.1", "S2.15")
def test_a_job_without_options_is_ready_at_once_with_the_defaults(engine: Engine) -> None:
    found = engine.find(engine.enqueue(Policy("mail"), {"to": "a@example.org"}))
    assert found is not None
    assert (found.kind, found.queue, found.state, found.priority) == ("mail", "default", "ready", 5)
    assert (found.attempt, found.max_attempts) == (0, 20)
    assert (found.args, found.created_at, found.finished_at) == ('{"to": "a@example.org"}', START, None)
    assert (found.run_at, found.worker, found.started_at, found.error, found.result) == (None,) * 5


@pytest.mark.requirement("S2.14")
def test_all_that_was_asked_is_kept_with_the_job(engine: Engine) -> None:
    policy = wishing()
    job = engine.enqueue(policy, {"n": 1}, deadline_at=START + A_MINUTE)
    [row] = engine.connection.execute(
        "select kind, queue, priority, max_attempts, backoff::text, timeout, keep, on_lost, tags, origin,"
        "       deadline_at"
        "  from holdfast.job where id = %s",
        [job],
    )
    assert row[:4] == ("mail", "slow", 2, 7)
    assert from_json(row[4]) == exponential("1m", cap="1h", jitter=0)
    assert row[5:] == (
        timedelta(seconds=90),
        timedelta(days=3),
        "fail",
        list(policy.tags),
        {"trace": "abc"},
        START + A_MINUTE,
    )


def test_what_is_the_default_is_stored_as_nothing(engine: Engine) -> None:
    job = engine.enqueue(Policy("mail", backoff=DEFAULT))
    columns = "backoff, timeout, keep, on_lost, tags, origin, unique_key, deadline_at"
    [row] = engine.connection.execute(f"select {columns} from holdfast.job where id = %s", [job])
    assert row == (None,) * 8


@pytest.mark.requirement("S2.14")
@pytest.mark.parametrize("when", [{"delay": A_MINUTE}, {"run_at": START + A_MINUTE}])
def test_a_delay_or_a_time_to_come_schedules_the_job(engine: Engine, when: dict[str, Any]) -> None:
    found = engine.find(engine.enqueue(**when))
    assert found is not None
    assert (found.state, found.run_at) == ("scheduled", START + A_MINUTE)


@pytest.mark.requirement("S1.2")
@pytest.mark.parametrize("when", [{"delay": timedelta()}, {"run_at": START}, {"run_at": START - A_MINUTE}])
def test_a_time_that_has_come_is_now(engine: Engine, when: dict[str, Any]) -> None:
    assert engine.state(engine.enqueue(**when)) == "ready"


def test_a_time_in_another_zone_is_the_same_moment(engine: Engine) -> None:
    from zoneinfo import ZoneInfo

    there = (START + A_MINUTE).astimezone(ZoneInfo("America/St_Johns"))
    found = engine.find(engine.enqueue(run_at=there))
    assert found is not None
    assert found.run_at == START + A_MINUTE


@pytest.mark.requirement("S1.25")
def test_a_delay_is_added_to_the_databases_clock(dsn: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        [(before,)] = engine.connection.execute("select clock_timestamp()")
        found = engine.find(engine.enqueue(delay=A_MINUTE))
        [(after,)] = engine.connection.execute("select clock_timestamp()")
        assert found is not None
        assert found.run_at is not None
        assert before + A_MINUTE <= found.run_at <= after + A_MINUTE


def test_a_batch_answers_with_ids_in_its_order_whatever_its_jobs_wish(engine: Engine) -> None:
    """Ready, scheduled and of many policies: each id belongs to the arguments at its place."""
    options: list[dict[str, Any]] = [
        {},
        {"delay": A_MINUTE},
        {"unique_key": "k"},
        {"deadline_at": START + A_MINUTE},
    ]
    new = [
        NewJob(
            Policy(f"kind {n % 7}", priority=n % 10), args_json({"n": n}), **options[n % 4 if n != 6 else 0]
        )
        for n in range(40)
        if n % 4 != 2 or n == 2
    ]
    answers = engine.run(jobs.enqueue(SCHEMA, new, notify=False, now=engine.now))
    stored = dict(engine.connection.execute("select id, args::text from holdfast.job").fetchall())
    assert [stored[row.job] for row in answers] == [job.args for job in new]
    assert [row.job for row in answers] == sorted(row.job for row in answers)


@pytest.mark.parametrize("notify", [True, False])
def test_jobs_that_differ_only_in_their_args_are_written_as_any_others(engine: Engine, notify: bool) -> None:
    """By a statement of their own; policies that are equal but not the same go by the one for all."""
    one = wishing()
    engine.connection.execute('listen "holdfast.ready"')
    alike = [NewJob(one, args_json({"n": n, "odd": '\x1e"\\'})) for n in range(3)]
    various = [NewJob(wishing(), job.args) for job in alike]
    statements = [jobs.enqueue(SCHEMA, batch, notify=notify, now=engine.now) for batch in (alike, various)]
    assert [statement.name for statement in statements] == ["enqueue_alike", "enqueue"]
    written = []
    for statement in statements:
        ids = [row.job for row in engine.run(statement)]
        assert ids == sorted(ids)
        assert [row.is_new for row in engine.run(statement)] == [True] * 3
        written.append(
            engine.connection.execute(
                "select j.created_at, j.priority, max_attempts, j.kind, j.queue, args::text, backoff,"
                "       timeout, keep, on_lost, tags, origin, r.priority, r.kind, r.queue, r.attempt, segment"
                "  from holdfast.job j join holdfast.ready r on r.job = j.id where id = any(%s) order by id",
                [ids],
            ).fetchall()
        )
    assert [len(rows) for rows in written] == [3, 3]
    assert written[0] == written[1]
    told = [each.payload for each in engine.connection.notifies(timeout=0.1)]
    assert told == (["slow"] * 4 if notify else [])


@pytest.mark.requirement("S2.9")
def test_a_job_exists_when_the_caller_commits_and_never_did_after_a_rollback(
    dsn: str, engine: Engine
) -> None:
    new = jobs.enqueue(SCHEMA, [NewJob(Policy("mail"))], notify=True, now=START)
    with psycopg.connect(dsn) as caller:
        [lost] = run_on_blocking(caller, new)
        assert engine.find(lost.job) is None
        caller.rollback()
        [kept] = run_on_blocking(caller, new)
        assert engine.find(kept.job) is None
        caller.commit()
    assert engine.find(lost.job) is None
    assert engine.state(kept.job) == "ready"


def test_the_callers_stricter_isolation_level_is_no_obstacle(dsn: str, engine: Engine) -> None:
    for level in (psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE):
        with psycopg.connect(dsn) as caller:
            caller.isolation_level = level
            [row] = run_on_blocking(caller, jobs.enqueue(SCHEMA, [NewJob(Policy("mail"))], notify=True))
        assert engine.state(row.job) == "ready"


@pytest.mark.requirement("S2.16")
def test_a_queue_is_told_once_per_statement_and_only_when_asked(dsn: str, engine: Engine) -> None:
    ready = [NewJob(Policy("mail", queue=f"queue {n % 2}")) for n in range(100)]
    later = [NewJob(Policy("mail"), delay=n * A_MINUTE) for n in (3, 2, 5)]
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute('listen "holdfast.ready"; listen "holdfast.due"')
        engine.run(jobs.enqueue(SCHEMA, ready + later, notify=False, now=START))
        engine.run(jobs.enqueue(SCHEMA, ready + later, notify=True, now=START))
        heard = {(told.channel, told.payload) for told in listener.notifies(timeout=10, stop_after=3)}
        assert list(listener.notifies(timeout=0)) == []
    due = (START + 2 * A_MINUTE).timestamp()
    assert heard >= {("holdfast.ready", "queue 0"), ("holdfast.ready", "queue 1")}
    assert [float(payload) for channel, payload in heard if channel == "holdfast.due"] == [due]


@pytest.mark.requirement("S4.1")
def test_a_kind_is_kept_beside_the_args_and_not_in_them(engine: Engine) -> None:
    found = engine.find(engine.enqueue(Policy("sync_manga"), {"kind": "other", "manga": 3}))
    assert found is not None
    assert (found.kind, found.args) == ("sync_manga", '{"kind": "other", "manga": 3}')


def test_a_backoff_is_stored_as_numbers_and_comes_with_the_claim(engine: Engine) -> None:
    engine.enqueue(Policy("mail", backoff=Fixed(A_MINUTE)))
    [claimed] = engine.claim(engine.worker())
    assert from_json(claimed.backoff) == Fixed(A_MINUTE)


MANY = 100_000


def many() -> Iterator[NewJob]:
    """Each job with arguments of its own, so that each costs what it costs."""
    policy = Policy("mail")
    for n in range(MANY):
        yield NewJob(policy, args_json({"n": n, "text": f"job number {n} of many"}))


def test_a_hundred_thousand_jobs_in_one_call_get_ids_in_order_and_all_or_none(engine: Engine) -> None:
    answers = engine.hold(jobs.enqueue_many(SCHEMA, many(), now=engine.now))
    assert len(answers) == MANY
    assert all(row.is_new for row in answers)
    at_random = [answers[n].job for n in range(0, MANY, 997)]
    rows = engine.connection.execute(
        "select (args->>'n')::int from holdfast.job where id = any(%s) order by id", [at_random]
    )
    assert [n for (n,) in rows] == list(range(0, MANY, 997))

    def breaks_late() -> Iterator[NewJob]:
        yield from many()
        raise OSError("the caller's source")

    with pytest.raises(OSError, match="source"):
        engine.hold(jobs.enqueue_many(SCHEMA, breaks_late(), now=engine.now))
    assert engine.connection.execute("select count(*) from holdfast.job").fetchone() == (MANY,)


def test_bulk_enqueue_holds_a_chunk_and_never_the_whole_input(engine: Engine) -> None:
    """What is held at the peak, beside the ids that are the answer, against the input as a list."""
    some = 20_000
    whole = _size_of(lambda: list(islice(many(), some)))
    tracemalloc.start()
    try:
        answers = engine.hold(jobs.enqueue_many(SCHEMA, islice(many(), some), now=engine.now))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(answers) == some
    assert peak - held < whole / 3


def test_the_largest_args_of_all_go_in_one_call(engine: Engine) -> None:
    """More text than one statement may carry, so that it goes in several."""
    largest = args_json({"text": "x" * (ARGS_LIMIT - 12)})
    assert len(largest) > ARGS_LIMIT - 3
    answers = engine.hold(
        jobs.enqueue_many(SCHEMA, (NewJob(Policy("mail"), largest) for _ in range(300)), now=engine.now)
    )
    assert [row.job for row in answers] == sorted({row.job for row in answers})
    sizes = engine.connection.execute("select count(*), min(length(args::text)) from holdfast.job")
    assert sizes.fetchone() == (300, len(largest))


def _size_of(make: Any) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    del kept
    return int(size)


def test_the_real_clock_is_the_databases_and_in_utc(dsn: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        found = engine.find(engine.enqueue())
        assert found is not None
        assert found.created_at.tzinfo is UTC
        [(age,)] = engine.connection.execute("select clock_timestamp() - %s", [found.created_at])
        assert timedelta() <= age < timedelta(minutes=5)
        assert isinstance(found.created_at, datetime)
