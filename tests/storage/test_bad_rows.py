"""One bad row never fails a batch: not a result, not an error's text, not a row written by hand."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.codec.result import RESULT_LIMIT, bounded, success
from holdfast.domain.failure import MESSAGE_LIMIT, Failure
from holdfast.domain.job import Policy
from holdfast.domain.json_text import flaw
from holdfast.domain.outcome import AttemptOutcome, Failed, Snoozed, Succeeded
from holdfast.domain.retention import Retention
from holdfast.domain.transition import (
    CompleteJob,
    FailJob,
    ReleaseJob,
    RetryJob,
    Run,
    SnoozeJob,
    Transition,
    decide,
)
from holdfast.storage import chores, job_lookup, runs, workers
from support.engine import SCHEMA, Engine

JOB = timedelta(seconds=1)
RUN = Run(1, 1, Policy("mail").backoff)


def settled(engine: Engine, worker: int, transitions: list[Any]) -> list[job_lookup.Found]:
    """Each of these in one statement, with a sound one before and behind."""
    asked = [CompleteJob("1", None), *transitions, CompleteJob("2", None)]
    for _ in asked:
        engine.enqueue()
    claimed = engine.claim(worker, limit=len(asked))
    settlements = [
        runs.Settlement(worker, row.job or 0, row.run, transition)
        for row, transition in zip(claimed, asked, strict=True)
    ]
    answers = engine.run(runs.settle(SCHEMA, settlements, now=engine.now, retention=Retention()))
    assert [row.answer for row in answers] == ["settled"] * len(asked)
    first, *found, last = [engine.find(row.job or 0) for row in claimed]
    assert (first and first.result, last and last.result) == ("1", "2")
    return [each for each in found if each]


@pytest.mark.requirement("S0.25")
def test_a_success_without_a_result_shows_an_empty_object(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        nothing, null = settled(engine, engine.worker(), [CompleteJob(None, None), CompleteJob("null", None)])
        assert (nothing.state, nothing.result, nothing.flag) == ("succeeded", None, None)
        assert null.result == "null"
        shown = engine.connection.execute("select result from holdfast.jobs where id = %s", [nothing.job])
        assert shown.fetchone() == ({},)


UNFIT = [
    "",
    "{",
    "nothing",
    "NaN",
    "[Infinity]",
    '"\\u0000"',
    '"\\ud83d"',
    '"\ud83d"',
    "1e999999",
    "'a'",
    "[" * 9999,
]


@pytest.mark.requirement("S0.27")
def test_a_result_that_is_no_json_is_dropped_and_flagged_and_the_job_is_done(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        for found in settled(engine, engine.worker(), [decide(RUN, bounded(text), 0.5) for text in UNFIT]):
            assert (found.state, found.result, found.flag) == ("succeeded", None, "result_unencodable")


class Opaque:
    pass


@pytest.mark.requirement("S0.27")
@pytest.mark.parametrize("value", [float("nan"), {"a": Opaque()}, Opaque(), "\0", "\ud83d", [10**5000], 1j])
def test_a_value_that_json_cannot_say_is_still_a_success(value: object) -> None:
    assert success(value, None, limit=RESULT_LIMIT) == Succeeded(None, "result_unencodable")


@pytest.mark.requirement("S0.26")
@pytest.mark.parametrize(
    "value", ["x" * RESULT_LIMIT, ["x"] * RESULT_LIMIT, {"a": "é" * (RESULT_LIMIT // 2)}]
)
def test_a_result_above_its_limit_is_dropped_and_flagged_in_the_same_call(dsn: str, value: object) -> None:
    with Engine.on(dsn) as engine:
        returned = success(value, None, limit=RESULT_LIMIT)
        [found] = settled(engine, engine.worker(), [decide(RUN, returned, 0.5)])
        assert (found.state, found.result, found.flag) == ("succeeded", None, "result_too_large")


def test_a_result_at_its_limit_is_kept() -> None:
    text = '"' + "x" * (RESULT_LIMIT - 2) + '"'
    assert bounded(text) == Succeeded(text)
    assert bounded(text, limit=RESULT_LIMIT - 1).flag == "result_too_large"
    assert success("é", None, limit=4) == Succeeded('"é"')
    assert success("éé", None, limit=4).flag == "result_too_large"


def test_what_has_no_flaw_is_stored(dsn: str) -> None:
    text = st.text(st.sampled_from('{}[]",:\\ud83de019.-+eE\0\x7f\ud800é tfnNaul'), max_size=12)
    numbers = st.from_regex(r"-?[0-9]{1,3}(\.[0-9]{1,3})?[eE][+-]?[0-9]{1,9}", fullmatch=True)
    with Engine.on(dsn) as engine:

        @settings(max_examples=400)
        @given(text | numbers | text.map(lambda inner: f'"{inner}"'))
        def check(text: str) -> None:
            if flaw(text) is None:
                engine.connection.execute("select %s::text::jsonb", [text])

        check()


@pytest.mark.requirement("S0.21", "S0.23")
def test_the_text_of_an_error_is_stored_whatever_it_holds(dsn: str) -> None:
    nasty = Failure(
        "a\0b\ud83d" + "é" * 5000, traceback="\0" + "t" * 99_999, type="\0", causes=("\ud800",) * 99
    )
    with Engine.on(dsn) as engine:
        for found in settled(
            engine, engine.worker(), [FailJob(nasty), RetryJob(JOB, nasty), SnoozeJob(JOB, nasty)]
        ):
            [entry] = engine.history(found.job)
            [(message, has_end)] = engine.connection.execute(
                "select %s::jsonb->>'message', %s::jsonb->>'traceback' ~ 'ttt$'", [entry.error, entry.error]
            )
            assert message.startswith("a\N{REPLACEMENT CHARACTER}b?é")
            assert (len(message), has_end) == (MESSAGE_LIMIT, True)


def test_a_delay_beyond_all_time_is_cut_and_fails_no_batch(dsn: str) -> None:
    run = Run(1, 9, Policy("mail").backoff)
    outcomes: list[AttemptOutcome] = [Snoozed(timedelta.max), Failed(Failure("no"), delay=timedelta.max)]
    with Engine.on(dsn) as engine:
        for found in settled(engine, engine.worker(), [decide(run, outcome, 0.5) for outcome in outcomes]):
            assert (found.state, found.run_at and found.run_at.year) == ("scheduled", 2126)


def test_a_run_that_is_settled_twice_in_one_batch_counts_once(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        worker = engine.worker()
        engine.enqueue()
        engine.enqueue()
        one, other = engine.claim(worker)
        twice = [
            runs.Settlement(worker, one.job or 0, one.run, CompleteJob('"first"', None)),
            runs.Settlement(worker, one.job or 0, one.run, FailJob(Failure("second"))),
            runs.Settlement(worker, other.job or 0, other.run, CompleteJob(None, None)),
        ]
        answers = engine.run(runs.settle(SCHEMA, twice, now=engine.now, retention=Retention()))
        assert sorted((row.job, row.answer) for row in answers) == [
            (one.job, "settled"),
            (other.job, "settled"),
        ]
        found = engine.find(one.job or 0)
        assert found is not None
        assert found.result == '"first"'


GARBAGE = [
    "{}", "[]", "1", '"exponential"', '{"exponential": [0, 0, 0, 0]}',
    '{"exponential": [1, 1e300, 1e300, 1]}', '{"exponential": ["x", null, {}, []]}', '{"fixed": -5}',
    '{"fixed": 1e300}', '{"list": []}', '{"list": [null]}',
    '{"polynomial": [1e308, 1, 1]}', '{"unknown": 1}',
]  # fmt: skip


@pytest.mark.requirement("S3.24")
def test_a_backoff_written_by_hand_as_garbage_stops_no_rescue(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        found = [engine.enqueue() for _ in range(len(GARBAGE) + 2)]
        with engine.connection.cursor() as cursor:
            cursor.executemany(
                "update holdfast.job set backoff = %s::jsonb where id = %s",
                list(zip(GARBAGE, found, strict=False)),
            )
        engine.claim(engine.worker(), limit=100)
        engine.pass_time(workers.LEASE * 2)
        engine.run(workers.mark_lost(SCHEMA, now=engine.now))
        rescued = engine.hold(chores.rescue(SCHEMA, luck=0.5, now=engine.now, retention=Retention()))
        assert [taken.settled.outcome for taken in rescued] == ["retried"] * len(found)
        assert {engine.state(job) for job in found} == {"scheduled"}


def forget(engine: Engine, job: int) -> None:
    """As a person with psql might."""
    engine.connection.execute("delete from holdfast.job where id = %s", [job])


def test_a_ready_row_whose_job_is_gone_is_swept_by_the_claim_that_meets_it(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        worker = engine.worker()
        gone, there = engine.enqueue(), engine.enqueue()
        forget(engine, gone)
        assert [row.job for row in engine.claim(worker)] == [there]
        assert engine.connection.execute("select count(*) from holdfast.ready").fetchone() == (0,)


def test_a_scheduled_row_whose_job_is_gone_is_swept_by_promote_and_by_expire(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        assert engine.now is not None
        deadline = engine.now + 2 * JOB
        gone, there = engine.enqueue(delay=JOB), engine.enqueue(delay=JOB)
        late = [engine.enqueue(delay=10 * JOB, deadline_at=deadline) for _ in range(2)]
        forget(engine, gone)
        forget(engine, late[0])
        engine.pass_time(5 * JOB)
        engine.one(chores.promote(SCHEMA, now=engine.now))
        assert engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention())).moved == 1
        assert (engine.state(there), engine.state(late[1])) == ("ready", "expired")
        assert engine.connection.execute("select count(*) from holdfast.scheduled").fetchone() == (0,)


@pytest.mark.parametrize(
    ("transition", "answer"), [(CompleteJob(None, None), "settled"), (ReleaseJob(), "lost")]
)
def test_a_run_whose_job_is_gone_ends_and_the_others_are_settled(
    dsn: str, transition: Transition, answer: str
) -> None:
    """A success is in the ledger, until it is pruned; of anything else there is nothing left to do."""
    with Engine.on(dsn) as engine:
        worker = engine.worker()
        gone, there = engine.enqueue(), engine.enqueue()
        claimed = engine.claim(worker)
        forget(engine, gone)
        settlements = [runs.Settlement(worker, row.job or 0, row.run, transition) for row in claimed]
        answers = engine.run(runs.settle(SCHEMA, settlements, now=engine.now, retention=Retention()))
        assert {row.job: row.answer for row in answers} == {
            gone: answer,
            there: "settled",
        }
        assert engine.connection.execute("select count(*) from holdfast.lease").fetchone() == (0,)
        engine.pass_time(2 * Retention().succeeded)
        assert engine.one(chores.prune(SCHEMA, now=engine.now)).moved == (2 if answer == "settled" else 0)
        assert engine.connection.execute(
            "select count(*) from holdfast.ledger where is_final"
        ).fetchone() == (0,)


@pytest.mark.parametrize("is_overdue", [False, True])
def test_a_lease_whose_job_is_gone_is_swept_by_rescue(dsn: str, is_overdue: bool) -> None:
    """Otherwise it would be kept for ever, and its worker with it."""
    with Engine.on(dsn) as engine:
        worker = engine.worker()
        gone, there = engine.enqueue(), engine.enqueue()
        engine.claim(worker)
        forget(engine, gone)
        engine.pass_time(timedelta(hours=2))
        if is_overdue:
            chore = chores.rescue_overdue(SCHEMA, luck=0, grace=JOB, now=engine.now, retention=Retention())
        else:
            engine.run(workers.mark_lost(SCHEMA, now=engine.now))
            chore = chores.rescue(SCHEMA, luck=0, now=engine.now, retention=Retention())
        answers = [taken.settled for taken in engine.hold(chore)]
        assert {row.job: row.answer for row in answers} == {gone: "lost", there: "settled"}
        assert engine.state(there) == "scheduled"
        assert engine.connection.execute("select count(*) from holdfast.lease").fetchone() == (0,)
