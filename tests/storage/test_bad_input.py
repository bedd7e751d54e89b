"""Bad input is refused with what to do about it, before anything is written."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy, args_json
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob, FailJob, RetryJob
from holdfast.errors import InvalidInput
from holdfast.storage import job_lookup, job_verbs, jobs, operators
from holdfast.storage.runs import Saving, Settlement, settle
from support.engine import SCHEMA, Engine

A_DAY = timedelta(days=1)
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - what is refused
CENTURIES = timedelta(days=100_000)

BAD_POLICIES: list[tuple[dict[str, Any], str]] = [
    ({"kind": ""}, r"kind '' must be text of 1 to 200 characters"),
    ({"kind": "k" * 201}, "kind .* must be text of 1 to 200"),
    ({"kind": None}, "kind None must be text"),
    ({"kind": "a\0b"}, "cannot be printed"),
    ({"kind": "a\nb"}, "cannot be printed"),
    ({"kind": "\ud800"}, "cannot be printed"),
    ({"queue": ""}, "queue '' must be text of 1 to 200"),
    ({"queue": "q" * 201}, "queue .* must be text of 1 to 200"),
    ({"queue": "a\0b"}, "cannot be printed"),
    ({"priority": -1}, r"priority is -1: give 0 \(most urgent\) to 9"),
    ({"priority": 10}, "priority is 10"),
    ({"priority": True}, "priority is True"),
    ({"priority": 2.0}, r"priority is 2\.0"),
    ({"max_attempts": 0}, "max_attempts is 0: give 1 to 32767, the first included"),
    ({"max_attempts": 32_768}, "max_attempts is 32768"),
    ({"max_attempts": 1.5}, r"max_attempts is 1\.5"),
    ({"timeout": timedelta()}, "timeout is 0:00:00: it must be above 0"),
    ({"timeout": -A_DAY}, "timeout is -1 day"),
    ({"timeout": CENTURIES}, "timeout is 100000d: the longest is 36525d"),
    ({"keep": -A_DAY}, "keep is -1 day.*: give 0 to delete a job when it ends"),
    ({"keep": CENTURIES}, "keep is 100000d"),
    ({"on_lost": "shrug"}, 'on_lost is \'shrug\': give "retry" or "fail"'),
    ({"tags": ("",)}, "tag '' must be text"),
    ({"tags": ("a\0",)}, "cannot be printed"),
    ({"origin": "{"}, "origin '{' must be JSON text"),
    ({"origin": '{"a": "\\u0000"}'}, "Postgres cannot store a NUL"),
]


@pytest.mark.requirement("S2.8", "S2.26")
@pytest.mark.parametrize(("fields", "says"), BAD_POLICIES)
def test_a_bad_policy_is_refused_when_it_is_made(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Policy(**{"kind": "mail", **fields})


BAD_TIMES: list[tuple[dict[str, Any], str]] = [
    ({"delay": -A_DAY}, "delay is -1 day.*: it must not be negative; leave it out to run now"),
    ({"delay": CENTURIES}, "delay is 100000d: the longest is 36525d, a hundred years"),
    ({"delay": A_DAY, "run_at": datetime.now(UTC)}, "a delay or a time, not both"),
    ({"run_at": NAIVE}, "has no time zone: use an aware datetime"),
    ({"run_at": datetime.max.replace(tzinfo=UTC)}, "out of range: leave it out if there is none"),
    ({"run_at": datetime.min.replace(tzinfo=UTC)}, "out of range"),
    ({"deadline_at": NAIVE}, "the deadline .* has no time zone"),
    (
        {"deadline_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-9)))},
        "the deadline .* is out of",
    ),
    ({"deadline_in": timedelta()}, "deadline is 0s: it must be above 0"),
    ({"deadline_in": A_DAY, "deadline_at": datetime.now(UTC)}, "one time, or one length from now, not both"),
    ({"delay": A_DAY, "deadline_in": A_DAY}, "deadline is 1d, delay 1d: the job would have expired"),
    ({"unique_key": ""}, "unique key '' must be text of 1 to 1000"),
    ({"unique_key": "k" * 1001}, "must be text of 1 to 1000"),
    ({"unique_key": "é" * 501}, "takes 1,002 bytes, the limit is 1,000: use a hash of it"),
    ({"unique_key": "a\0"}, "cannot be printed"),
]


@pytest.mark.parametrize(("fields", "says"), BAD_TIMES)
def test_a_bad_time_or_key_is_refused_when_the_job_is_made(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        NewJob(Policy("mail"), **fields)


CIRCLE: dict[str, object] = {}
CIRCLE["itself"] = CIRCLE

BAD_ARGS: list[tuple[object, str]] = [
    ([1, 2], "args must be a JSON object with text as names, not list"),
    ("text", "not str"),
    (None, "not NoneType"),
    ({1: "one"}, "text as names"),
    ({"a": float("nan")}, "cannot be written as JSON: .*not JSON compliant"),
    ({"a": [float("-inf")]}, "cannot be written as JSON"),
    ({"a": "\0"}, "NUL character, which Postgres cannot store: remove or encode it"),
    ({"a\0": 1}, "NUL character"),
    ({"a": "\\\0"}, "NUL character"),
    ({"a": "\ud83d"}, "half of a surrogate pair"),
    ({"a": object()}, "cannot be written as JSON: Object of type object"),
    ({"a": {1, 2}}, "cannot be written as JSON"),
    ({"a": b"bytes"}, "cannot be written as JSON"),
    (CIRCLE, "cannot be written as JSON: Circular reference"),
    ({"a": 10**5000}, "cannot be written as JSON"),
    ({"a": "x" * 1024 * 1024}, r"args take 1,048,584 bytes, the limit is 1,048,576: store them elsewhere"),
]


@pytest.mark.requirement("S2.15")
@pytest.mark.parametrize(("args", "says"), BAD_ARGS)
def test_args_that_cannot_be_stored_are_refused(args: object, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        args_json(args)


def test_the_limit_of_args_counts_bytes_and_can_be_chosen() -> None:
    assert args_json({"a": "é"}, limit=10) == '{"a":"é"}'
    with pytest.raises(InvalidInput, match="take 12 bytes, the limit is 10"):
        args_json({"a": "éé"}, limit=10)


# Postgres keeps numbers exactly as written: a large float comes back as the integer that its digits say.
FLOATS = st.floats(-1e15, 1e15) | st.sampled_from([math.nan, math.inf, -math.inf])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def test_whatever_args_are_accepted_are_stored_and_given_back(dsn: str) -> None:
    """A name that says NUL by an escaped backslash is text, one that is a NUL is not: the regex must know."""
    with Engine.on(dsn) as engine:

        @given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
        def check(args: dict[str, object]) -> None:
            try:
                text = args_json(args)
            except InvalidInput:
                return
            [(stored,)] = engine.connection.execute("select %s::jsonb", [text])
            assert stored == json.loads(text)

        check()
        assert args_json({"a": "\\u0000"}) == '{"a":"\\\\u0000"}'


def test_nothing_is_written_for_a_batch_with_a_bad_job(dsn: str) -> None:
    """The job is refused when it is made: there is no statement yet."""
    with Engine.on(dsn) as engine:

        def batch() -> Any:
            yield NewJob(Policy("mail"))
            yield NewJob(Policy("mail"), delay=-A_DAY)

        with pytest.raises(InvalidInput):
            engine.hold(jobs.enqueue_many(SCHEMA, batch(), now=engine.now))
        assert engine.connection.execute("select count(*) from holdfast.job").fetchone() == (0,)


@pytest.mark.parametrize("long", ["queue", "kind", "unique_key", "all"])
def test_the_longest_names_in_the_widest_characters_are_stored(dsn: str, long: str) -> None:
    """They are in indexes, whose rows have a limit in bytes: what passes the check must fit."""
    wide = "".join(chr(0x20000 + n) for n in range(200))
    with Engine.on(dsn) as engine:
        queue = wide if long in ("queue", "all") else "default"
        kind = wide[::-1] if long in ("kind", "all") else "mail"
        key = "".join(chr(0x20000 + 7 * n) for n in range(250)) if long in ("unique_key", "all") else None
        policy = Policy(kind, queue)
        worker = engine.worker(queues=(policy.queue,), kinds=(policy.kind,))
        job = engine.enqueue(policy, unique_key=key)
        [claimed] = engine.claim(worker, queue=policy.queue, kinds=(policy.kind,))
        assert claimed.job == job


OPERATORS: list[tuple[Any, str]] = [
    (lambda: operators.pause(SCHEMA, queue=""), "queue '' must be text"),
    (lambda: operators.pause(SCHEMA, queue="q", until=NAIVE), "has no time zone"),
    (lambda: operators.pause(SCHEMA, queue="q", length=-A_DAY), "length is -1 day"),
    (lambda: operators.pause(SCHEMA, queue="q", length=CENTURIES), "length is 100000d"),
    (lambda: operators.pause(SCHEMA, queue="q", length=A_DAY, until=datetime.now(UTC)), "not both"),
    (lambda: operators.resume(SCHEMA, queue="a\0"), "cannot be printed"),
    (lambda: next(job_verbs.delete(SCHEMA, [2**63])), "is not a job id"),
    (lambda: job_lookup.find(SCHEMA, 2**63), "is not a job id"),
    (lambda: job_lookup.history(SCHEMA, 2**70), "is not a job id"),
    (lambda: next(operators.cancel(SCHEMA, [1, -(2**64)], retention=Retention())), "is not a job id"),
    (lambda: next(operators.reprioritise(SCHEMA, [1], priority=10)), "priority is 10"),
    (lambda: next(operators.retry_dead(SCHEMA, [2**63])), "is not a job id"),
]


@pytest.mark.parametrize(("call", "says"), OPERATORS)
def test_an_operators_mistake_is_told_before_anything_is_sent(call: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        call()


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", '"\\u0000"', '"\\ud800"', '"\ud800"', "1e999999", "[" * 5000]
)
def test_a_state_that_is_no_json_is_refused_when_it_is_made(text: str) -> None:
    with pytest.raises(InvalidInput, match="the state of job 2 must be JSON text"):
        Saving(1, 2, 3, state=text)


def test_a_note_of_any_text_is_kept_readable(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        paused = engine.one(operators.pause(SCHEMA, queue="q", note="why\0 \ud800" + "y" * 5000))
        assert paused.note is not None
        assert paused.note.startswith("why\N{REPLACEMENT CHARACTER} ?y")
        assert len(paused.note) == operators.NOTE_LIMIT


STOPPING = {
    "kind": ("k" * 801,),
    "queue": ("q" * 801,),
    "timeout": (timedelta(), -CENTURIES, CENTURIES),
    "keep": (-CENTURIES, CENTURIES),
}


@pytest.mark.parametrize(("column", "value"), [(c, v) for c, values in STOPPING.items() for v in values])
def test_the_table_refuses_a_hand_written_row_that_would_stop_everybody(
    dsn: str, column: str, value: object
) -> None:
    """No index holds it, or a time overflows: claim, settle and promote would stumble over it."""
    with Engine.on(dsn) as engine, pytest.raises(psycopg.errors.CheckViolation):
        insert(engine, **{column: value})


HARMLESS: dict[str, tuple[object, ...]] = {
    "args": ("[]", '"text"', "7", "null"),
    "priority": (-1, 10),
    "max_attempts": (0, -3),
    "on_lost": ("shrug",),
}


@pytest.mark.parametrize(("column", "value"), [(c, v) for c, values in HARMLESS.items() for v in values])
def test_any_other_hand_written_row_is_run_like_its_neighbours(dsn: str, column: str, value: object) -> None:
    """A row that neither Python nor SQL would have accepted stops no worker: claimed and settled, each
    way, with sound ones on both sides.
    """
    failure = Failure("no", "handler_error")
    for transition in (CompleteJob(None, None), RetryJob(A_DAY, failure), FailJob(failure)):
        with Engine.on(dsn) as engine:
            worker = engine.worker()
            first, odd, last = engine.enqueue(), insert(engine, **{column: value}), engine.enqueue()
            claimed = engine.claim(worker)
            assert {row.job for row in claimed} == {first, odd, last}
            settlements = [Settlement(worker, row.job or 0, row.run, transition) for row in claimed]
            answers = engine.run(settle(SCHEMA, settlements, now=engine.now, retention=Retention()))
            assert [answer.answer for answer in answers] == ["settled"] * 3


def insert(engine: Engine, **columns: object) -> int:
    """As written by hand: the wide row, and the narrow one that makes the job ready."""
    row: dict[str, object] = {
        "created_at": engine.now,
        "kind": "mail",
        "queue": "default",
        "priority": 5,
        "max_attempts": 1,
        "args": "{}",
        **columns,
    }
    names, places = ", ".join(row), ", ".join(f"%({name})s" for name in row)
    found = engine.connection.execute(
        f"with j as (insert into holdfast.job ({names}) values ({places}) returning *), r as ("
        " insert into holdfast.ready (queue, priority, job, segment, kind, attempt, ready_at)"
        " select queue, priority, id, 0, kind, 0, created_at from j) select id from j",
        row,
    ).fetchone()
    assert found is not None
    return int(found[0])
