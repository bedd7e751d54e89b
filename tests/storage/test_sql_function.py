"""holdfast.enqueue in SQL: for psql, triggers and other languages, with the same guards."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from holdfast.domain.failure import Failure
from holdfast.domain.headers import with_headers
from holdfast.domain.job import Policy
from holdfast.domain.transition import CompleteJob, RetryJob
from holdfast.postgres.statement import Statement
from holdfast.storage import chores
from support.engine import SCHEMA, Engine
from support.waiting import block_until

PAGE = Path(__file__).parents[2] / "docs/how-to/enqueue-from-sql.md"


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with Engine.on(dsn, now=None) as engine:
        yield engine


def call(engine: Engine, arguments: str) -> int:
    [(job,)] = engine.connection.execute(f"select holdfast.enqueue({arguments})")
    return int(job)


@pytest.mark.requirement("S2.16")
def test_a_job_from_sql_is_like_one_from_python(engine: Engine) -> None:
    by_function = call(engine, "'mail', '{\"n\": 1}'")
    by_statement = engine.enqueue(Policy("mail"), {"n": 1})
    columns = (
        "priority, max_attempts, kind, queue, args, backoff, timeout, keep, on_lost, unique_key, tags, origin"
    )
    rows = engine.connection.execute(
        f"select {columns} from holdfast.job where id = any(%s)", [[by_function, by_statement]]
    ).fetchall()
    assert rows[0] == rows[1]
    assert [row.job for row in engine.claim(engine.worker())] == [by_function, by_statement]


def test_every_parameter_reaches_its_column(engine: Engine) -> None:
    job = call(
        engine,
        "'mail', '{}', queue => 'slow', priority => 1, run_at => '2999-01-01Z', unique_key => 'k',"
        " max_attempts => 3, deadline_at => '2999-01-02Z', timeout => '1 minute',"
        " tags => '{a,b}', keep => '1 hour'",
    )
    found = engine.find(job)
    assert found is not None
    assert (found.queue, found.priority, found.unique_key, found.max_attempts) == ("slow", 1, "k", 3)
    assert (found.state, found.tags) == ("scheduled", ["a", "b"])
    assert (str(found.run_at), str(found.deadline_at)) == (
        "2999-01-01 00:00:00+00:00",
        "2999-01-02 00:00:00+00:00",
    )
    [row] = engine.connection.execute("select timeout, keep from holdfast.job where id = %s", [job])
    assert row == (timedelta(minutes=1), timedelta(hours=1))


@pytest.mark.requirement("S2.16")
@pytest.mark.parametrize(
    ("arguments", "channel"),
    [("'mail', queue => 'q'", "holdfast.ready"), ("'mail', delay => '1 day'", "holdfast.due")],
)
def test_workers_are_told_when_the_caller_commits(
    dsn: str, engine: Engine, arguments: str, channel: str
) -> None:
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute('listen "holdfast.ready"; listen "holdfast.due"')
        with engine.connection.transaction():
            call(engine, arguments)
            assert list(listener.notifies(timeout=0)) == []
        [told] = listener.notifies(timeout=10, stop_after=1)
        assert told.channel == channel
        assert told.payload == "q" if channel == "holdfast.ready" else float(told.payload) > 0


def test_a_rolled_back_call_leaves_nothing(engine: Engine) -> None:
    with engine.connection.transaction(force_rollback=True):
        job = call(engine, "'mail', unique_key => 'k'")
    assert engine.find(job) is None
    assert engine.connection.execute("select count(*) from holdfast.unique_key").fetchone() == (0,)


@pytest.mark.requirement("S2.11", "S2.12")
def test_a_held_key_answers_with_its_holder_until_that_has_ended(engine: Engine) -> None:
    first = call(engine, "'mail', '{\"n\": 1}', unique_key => 'k'")
    assert call(engine, "'mail', '{\"n\": 2}', unique_key => 'k', delay => '1 day'") == first
    assert call(engine, "'mail', unique_key => 'k', queue => 'other'") != first
    found = engine.find(first)
    assert found is not None
    assert (found.args, found.state) == ('{"n": 1}', "ready")
    engine.connection.execute("delete from holdfast.ready; delete from holdfast.job")
    assert call(engine, "'mail', unique_key => 'k'") > first


BAD = {
    "null": "kind must have 1 to 200 characters",
    "''": "kind must have 1 to 200 characters",
    "repeat('k', 201)": "kind must have 1 to 200 characters",
    "e'a\\nb'": "must not hold control characters",
    "'mail', queue => ''": "queue must have 1 to 200 characters",
    "'mail', queue => null": "queue must have 1 to 200 characters",
    "'mail', queue => e'a\\tb'": "must not hold control characters",
    "'mail', '[]'": "args must be a JSON object",
    "'mail', null": "args must be a JSON object",
    "'mail', '\"text\"'": "args must be a JSON object",
    "'mail', jsonb_build_object('a', repeat('x', 1048576))": "larger than 1 MiB: store them elsewhere",
    "'mail', priority => -1": r"priority must be 0 \(most urgent\) to 9",
    "'mail', priority => 10": "priority must be 0",
    "'mail', priority => null": "priority must be 0",
    "'mail', max_attempts => 0": "max_attempts must be 1 to 32767",
    "'mail', max_attempts => 40000": "max_attempts must be 1 to 32767",
    "'mail', delay => '-1 second'": "delay must not be negative",
    "'mail', delay => '200000 years'": "must not be longer than a hundred years",
    "'mail', delay => '1 day', run_at => now()": "give delay or run_at, not both",
    "'mail', timeout => '0'": "timeout must be longer than nothing",
    "'mail', timeout => '1000 years'": "must not be longer than a hundred years",
    "'mail', keep => '-1 day'": "keep must not be negative",
    "'mail', keep => '102 years'": "must not be longer than a hundred years",
    "'mail', run_at => 'infinity'": "before the year 9001",
    "'mail', deadline_at => 'infinity'": "before the year 9001",
    "'mail', now => '9001-01-01Z'": "before the year 9001",
    "'mail', now => '-infinity'": "now must be a finite time",
    "'mail', deadline_at => now()": "deadline_at must come after the time at which the job may run",
    "'mail', delay => '2 days', deadline_at => now() + '1 day'": "deadline_at must come after",
    "'mail', unique_key => ''": "unique_key must have 1 to 1000 bytes",
    "'mail', unique_key => repeat('é', 501)": "unique_key must have 1 to 1000 bytes",
    "'mail', unique_key => e'\\x01'": "must not hold control characters",
    "'mail', tags => array['a', null]": "a tag must have 1 to 200 characters",
    "'mail', tags => array['']": "a tag must have 1 to 200 characters",
}


@pytest.mark.requirement("S2.8")
@pytest.mark.parametrize("arguments", list(BAD))
def test_a_mistake_is_told_before_anything_is_written(engine: Engine, arguments: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=BAD[arguments]):
        call(engine, arguments)
    assert engine.connection.execute("select last_value, is_called from holdfast.job_id_seq").fetchone() == (
        1,
        False,
    )


def test_a_hostile_search_path_changes_nothing(engine: Engine) -> None:
    """A function that shadows one holdfast.enqueue calls must not run with the caller's rights."""
    engine.connection.execute(
        "create schema evil; create table evil.job (id int); set search_path = evil, holdfast"
    )
    engine.connection.execute(
        "create function evil.coalesce(text) returns text language sql as 'select 1/0 || $1';"
        "create function evil.char_length(text) returns int language sql as 'select 1/0'"
    )
    assert engine.state(call(engine, "'mail'")) == "ready"


def test_a_debounced_call_replaces_what_waits_and_takes_over_the_key_of_what_runs(engine: Engine) -> None:
    again = "'mail', '{\"n\": %s}', unique_key => 'k', debounce => '1 ms', max_wait => '1 s', priority => 3"
    first = call(engine, again.replace("1 ms", "1 h").replace("'1 s'", "'2 h'") % 1)
    assert call(engine, again % 2) == first
    block_until(lambda: engine.one(chores.promote(SCHEMA)).moved == 1)
    worker = engine.worker()
    [run] = engine.claim(worker)
    assert (run.job, run.args, run.priority, run.newer) == (first, '{"n": 2}', 3, None)
    second = call(engine, again % 3)
    assert second != first
    engine.settle(worker, run, RetryJob(timedelta(), Failure("no")))
    block_until(lambda: engine.one(chores.promote(SCHEMA)).moved + engine.one(is_ready(2)) > 1)
    assert {row.job: row.newer for row in engine.claim(worker)} == {first: second, second: None}


def is_ready(jobs: int) -> Statement[int]:
    """2 if as many jobs are ready."""
    text = f"select case when count(*) = {jobs} then 2 else 0 end from holdfast.ready"
    return Statement("is_ready", text, {}, int)


def test_a_throttled_call_is_dropped_after_the_end_of_the_first(engine: Engine) -> None:
    first = call(engine, "'mail', unique_key => 'k', unique_for => '1 hour'")
    worker = engine.worker()
    [run] = engine.claim(worker)
    engine.settle(worker, run, CompleteJob(None, None))
    assert call(engine, "'mail', unique_key => 'k', unique_for => '1 hour'") == first
    engine.connection.execute("update holdfast.unique_key set until = now()")
    assert call(engine, "'mail', unique_key => 'k'") != first


@pytest.mark.parametrize(
    "arguments",
    [
        "debounce => '5 s'",
        "unique_for => '5 s'",
        "unique_key => 'k', max_wait => '5 s'",
        "unique_key => 'k', debounce => '5 s', max_wait => '4 s'",
        "unique_key => 'k', debounce => '5 s', unique_for => '4 s'",
        "unique_key => 'k', debounce => '5 s', delay => '4 s'",
        "unique_key => 'k', debounce => '5 s', run_at => now()",
        "unique_key => 'k', debounce => '0 s'",
        "unique_key => 'k', unique_for => '37000 days'",
    ],
)
def test_a_debounce_or_throttle_that_cannot_be_meant_is_refused(engine: Engine, arguments: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        call(engine, f"'mail', {arguments}")


def examples() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_every_example_of_the_page_runs_as_it_stands(dsn: str, engine: Engine) -> None:
    suffix = f"_{conninfo_to_dict(dsn)['dbname']}"
    for example in examples():
        engine.connection.execute(example.replace("shop_frontend", "shop_frontend" + suffix))
    kinds = dict(engine.connection.execute("select kind, count(*) from holdfast.jobs group by 1").fetchall())
    assert kinds == {"send_mail": 1002, "remind": 2, "rebuild_index": 1, "reindex": 1, "ship": 2}
    role = sql.Identifier("shop_frontend" + suffix)
    with engine.connection.transaction(force_rollback=True):
        engine.connection.execute(sql.SQL("set local role {}").format(role))
        call(engine, "'mail', unique_key => 'k'")
        call(engine, "'mail', delay => '1 day'")
        call(engine, "'mail'")
    engine.connection.execute(sql.SQL("drop owned by {0}; drop role {0}").format(role))


def test_the_errors_on_the_page_are_the_ones_that_come(engine: Engine) -> None:
    text = PAGE.read_text("utf-8")
    for arguments in ("'mail', priority => 10", "'mail', '[]'"):
        with pytest.raises(psycopg.errors.InvalidParameterValue) as told:
            call(engine, arguments)
        assert f"ERROR:  {told.value.diag.message_primary}\n" in text


def test_headers_are_stored_as_python_stores_them(engine: Engine) -> None:
    job = call(engine, "'mail', headers => '{\"tenant\": \"acme\"}'")
    [(origin,)] = engine.connection.execute("select origin from holdfast.job where id = %s", [job])
    assert origin == json.loads(with_headers(None, {"tenant": "acme"}) or "")
    plain = call(engine, "'mail', headers => '{}'")
    assert list(engine.connection.execute("select origin from holdfast.job where id = %s", [plain])) == [
        (None,)
    ]


@pytest.mark.parametrize(
    ("headers", "complaint"),
    [
        ("[]", "must be a JSON object"),
        ('{"a": 1}', "must be texts"),
        (json.dumps({"a": "x" * 9_000}), "larger than 8 KiB"),
    ],
)
def test_headers_that_are_no_texts_are_refused(engine: Engine, headers: str, complaint: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=complaint):
        engine.connection.execute("select holdfast.enqueue('mail', headers => %s)", [headers])
