"""Settling: one run ends once, behind its fence, and the ledger says how."""

import json
from datetime import timedelta
from typing import Any

import pytest

from holdfast.domain.backoff import Fixed, from_json
from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.outcome import AttemptOutcome, Failed, Snoozed, Succeeded, Unreadable
from holdfast.domain.retention import Retention
from holdfast.domain.retry import exponential
from holdfast.domain.transition import (
    CancelJob,
    CompleteJob,
    FailJob,
    ReleaseJob,
    RetryJob,
    Run,
    SnoozeJob,
    decide,
)
from holdfast.storage import chores, job_lookup, operators, runs, workers
from support.engine import SCHEMA, START, Engine

A_MINUTE = timedelta(minutes=1)
NO = Failure("no route to host", type="OSError", traceback="Traceback …", causes=("timed out",))


def act(engine: Engine, worker: int, claimed: runs.ClaimRow, outcome: AttemptOutcome) -> runs.Settled:
    """As a worker does it: decide from what came with the claim, then settle."""
    run = Run(claimed.attempt, claimed.max_attempts, from_json(claimed.backoff))
    return engine.settle(worker, claimed, decide(run, outcome, 0.5))


@pytest.mark.requirement("S0.20", "S4.16", "S2.28")
def test_a_success_ends_the_job_with_its_result_and_no_error(engine: Engine) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [claimed] = engine.claim(worker)
    engine.pass_time(A_MINUTE)
    assert engine.settle(worker, claimed, CompleteJob('{"sent": 3}', None)) == (
        job,
        claimed.run,
        "settled",
        "succeeded",
    )
    found = engine.find(job)
    assert found is not None
    assert (found.state, found.attempt, found.result, found.error) == ("succeeded", 1, '{"sent": 3}', None)
    assert (found.finished_at, found.worker, found.started_at) == (START + A_MINUTE, None, None)
    [entry] = engine.history(job)
    assert (entry.run, entry.worker, entry.is_final) == (claimed.run, worker, True)
    assert (entry.started_at, entry.finished_at) == (START, START + A_MINUTE)


@pytest.mark.requirement("S0.21", "S0.22", "S1.19", "S2.29", "S4.18")
def test_a_failure_with_attempts_left_is_written_down_and_due_after_its_delay(engine: Engine) -> None:
    job, worker = engine.enqueue(Policy("mail", backoff=Fixed(A_MINUTE))), engine.worker()
    [claimed] = engine.claim(worker)
    assert act(engine, worker, claimed, Failed(NO)).outcome == "retried"
    found = engine.find(job)
    assert found is not None
    assert (found.state, found.attempt, found.run_at) == ("scheduled", 1, START + A_MINUTE)
    assert (found.finished_at, found.worker) == (None, None)
    [entry] = engine.history(job)
    assert found.error == entry.error
    assert (entry.outcome, entry.is_final, entry.attempt) == ("retried", False, 1)
    assert json.loads(entry.error or "") == {
        "code": "handler_error",
        "message": "no route to host",
        "type": "OSError",
        "traceback": "Traceback …",
        "causes": ["timed out"],
    }


@pytest.mark.requirement("S0.22")
def test_an_empty_error_code_is_a_handler_error() -> None:
    empty: Any = ""
    assert json.loads(Failure("no", code=empty).to_json())["code"] == "handler_error"


@pytest.mark.requirement("S1.18", "S1.20", "S1.21", "S2.30", "S4.17", "S0.12")
def test_a_job_that_always_fails_runs_as_often_as_it_may_and_every_error_is_kept(engine: Engine) -> None:
    job, worker = engine.enqueue(Policy("mail", max_attempts=6, backoff=Fixed(A_MINUTE))), engine.worker()
    for attempt in range(1, 7):
        [claimed] = engine.claim(worker)
        assert claimed.attempt == attempt
        act(engine, worker, claimed, Failed(Failure(f"error {attempt}")))
        engine.pass_time(A_MINUTE)
        engine.one(chores.promote(SCHEMA, now=engine.now))
    assert engine.claim(worker) == []
    found = engine.find(job)
    assert found is not None
    assert (found.state, found.attempt) == ("failed", 6)
    assert json.loads(found.error or "")["message"] == "error 6"
    assert [json.loads(entry.error or "")["message"] for entry in engine.history(job)] == [
        f"error {attempt}" for attempt in range(1, 7)
    ]
    [dead] = engine.dead()
    assert (dead.job, dead.kind, dead.queue, dead.attempt, dead.args) == (job, "mail", "default", 6, "{}")


@pytest.mark.requirement("S2.31")
@pytest.mark.parametrize("max_attempts", [1, 2])
def test_success_on_the_last_attempt_is_success(engine: Engine, max_attempts: int) -> None:
    job, worker = (
        engine.enqueue(Policy("mail", max_attempts=max_attempts, backoff=Fixed(timedelta()))),
        engine.worker(),
    )
    for _ in range(max_attempts - 1):
        [claimed] = engine.claim(worker)
        act(engine, worker, claimed, Failed(NO))
        engine.one(chores.promote(SCHEMA, now=engine.now))
    [claimed] = engine.claim(worker)
    assert claimed.attempt == max_attempts
    act(engine, worker, claimed, Succeeded("1"))
    assert engine.state(job) == "succeeded"
    assert engine.dead() == []


@pytest.mark.requirement("S4.19")
def test_a_backoff_doubles_from_a_minute_to_an_hour(engine: Engine) -> None:
    job, worker = (
        engine.enqueue(Policy("mail", backoff=exponential("1m", cap="1h", jitter=0))),
        engine.worker(),
    )
    waits = []
    for _ in range(8):
        [claimed] = engine.claim(worker)
        act(engine, worker, claimed, Failed(NO))
        found = engine.find(job)
        assert found is not None
        assert found.run_at is not None
        assert engine.now is not None
        waits.append((found.run_at - engine.now).total_seconds())
        engine.pass_time(found.run_at - engine.now)
        engine.one(chores.promote(SCHEMA, now=engine.now))
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]


@pytest.mark.requirement("S4.20")
def test_a_release_gives_the_attempt_back_and_the_job_is_claimable_at_once(engine: Engine) -> None:
    job, worker = engine.enqueue(), engine.worker()
    for _ in range(3):
        [claimed] = engine.claim(worker)
        assert (claimed.job, claimed.attempt) == (job, 1)
        assert engine.settle(worker, claimed, ReleaseJob()).outcome == "released"
        found = engine.find(job)
        assert found is not None
        assert (found.state, found.attempt) == ("ready", 0)


def test_a_snooze_gives_the_attempt_back_and_waits(engine: Engine) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [claimed] = engine.claim(worker)
    assert engine.settle(worker, claimed, SnoozeJob(A_MINUTE)).outcome == "snoozed"
    found = engine.find(job)
    assert found is not None
    assert (found.state, found.attempt, found.run_at) == ("scheduled", 0, START + A_MINUTE)


@pytest.mark.requirement("S1.15")
def test_arguments_that_this_code_cannot_read_cost_no_attempt_and_end_dead_with_their_text(
    engine: Engine,
) -> None:
    """Another version may know them, for ten minutes; the rest of the queue goes on meanwhile."""
    bad, good, worker = engine.enqueue(args={"v": 2}), engine.enqueue(), engine.worker()
    unread = Failure('cannot read {"v": 2} as Mail', "decode_error")
    first, second = engine.claim(worker)
    assert act(engine, worker, first, Unreadable(unread, A_MINUTE)).outcome == "snoozed"
    assert act(engine, worker, second, Succeeded()).outcome == "succeeded"
    found = engine.find(bad)
    assert found is not None
    assert (found.state, found.attempt, engine.state(good)) == ("scheduled", 0, "succeeded")
    engine.pass_time(15 * A_MINUTE)
    engine.one(chores.promote(SCHEMA, now=engine.now))
    engine.run(runs.renew(SCHEMA, worker=worker, lease=A_MINUTE, runs=[], now=engine.now))
    [again] = engine.claim(worker)
    act(engine, worker, again, Unreadable(unread, 15 * A_MINUTE))
    [dead] = engine.dead()
    assert (dead.job, json.loads(dead.args), json.loads(dead.error or "")["code"]) == (
        bad,
        {"v": 2},
        "decode_error",
    )


def test_a_misfit_lasts_since_the_first_of_those_that_came_one_after_the_other(engine: Engine) -> None:
    """A flow of last year, or a job that was enqueued for next week, has the same ten minutes as any."""
    job, worker = engine.enqueue(), engine.worker()
    unread = Failure("cannot read it", "decode_error")

    def lasting() -> timedelta | None:
        return engine.one(job_lookup.misfit_for(SCHEMA, job, now=engine.now))

    def next_run() -> runs.ClaimRow:
        engine.pass_time(A_MINUTE)
        engine.one(chores.promote(SCHEMA, now=engine.now))
        engine.run(runs.renew(SCHEMA, worker=worker, lease=A_MINUTE, runs=[], now=engine.now))
        [claimed] = engine.claim(worker)
        return claimed

    assert lasting() is None
    for expected in (timedelta(), A_MINUTE, 2 * A_MINUTE):
        act(engine, worker, next_run(), Unreadable(unread))
        assert lasting() == expected
    act(engine, worker, next_run(), Snoozed(timedelta(seconds=1)))
    assert lasting() is None
    act(engine, worker, next_run(), Unreadable(unread))
    engine.pass_time(A_MINUTE)
    assert lasting() == A_MINUTE
    assert act(engine, worker, next_run(), Unreadable(unread, 11 * A_MINUTE)).outcome == "failed"
    assert engine.hold(operators.resume_dead(SCHEMA, [job], now=engine.now)) == {job: "resumed"}
    assert lasting() is None


@pytest.mark.requirement("S1.25")
def test_a_retry_is_due_by_the_databases_clock(dsn: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        job, worker = engine.enqueue(), engine.worker()
        [claimed] = engine.claim(worker)
        [(before,)] = engine.connection.execute("select clock_timestamp()")
        engine.settle(worker, claimed, RetryJob(A_MINUTE, NO))
        [(after,)] = engine.connection.execute("select clock_timestamp()")
        found = engine.find(job)
        assert found is not None
        assert found.run_at is not None
        assert before + A_MINUTE <= found.run_at <= after + A_MINUTE


SETTLES = [
    CompleteJob("1", None),
    FailJob(NO),
    RetryJob(A_MINUTE, NO),
    SnoozeJob(A_MINUTE),
    ReleaseJob(),
    CancelJob(None),
]


@pytest.mark.parametrize("transition", SETTLES)
def test_a_settle_that_is_sent_again_answers_already_and_changes_nothing(
    engine: Engine, transition: Any
) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [claimed] = engine.claim(worker)
    assert engine.settle(worker, claimed, transition).answer == "settled"
    state, history = engine.find(job), engine.history(job)
    engine.pass_time(A_MINUTE)
    for again in SETTLES:
        assert engine.settle(worker, claimed, again).answer == "already"
    assert (engine.find(job), engine.history(job)) == (state, history)


def lose(engine: Engine, worker: int) -> None:
    engine.pass_time(2 * workers.LEASE)
    assert worker in engine.run(workers.mark_lost(SCHEMA, now=engine.now))
    engine.hold(chores.rescue(SCHEMA, luck=0.5, now=engine.now, retention=Retention()))


@pytest.mark.requirement("S1.27", "S1.28", "S0.20", "S4.21")
@pytest.mark.parametrize("transition", SETTLES)
def test_a_run_that_was_taken_away_settles_nothing_even_before_another_worker_has_the_job(
    engine: Engine, transition: Any
) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [claimed] = engine.claim(worker)
    lose(engine, worker)
    state, history = engine.find(job), engine.history(job)
    assert engine.settle(worker, claimed, transition).answer == "lost"
    assert (engine.find(job), engine.history(job)) == (state, history)


@pytest.mark.requirement("S0.10", "S0.24", "S4.21")
def test_after_a_takeover_the_old_holder_can_write_nothing_and_the_new_one_shows_nothing_of_it(
    engine: Engine,
) -> None:
    job, old = engine.enqueue(), engine.worker()
    [lost] = engine.claim(old)
    lose(engine, old)
    engine.pass_time(A_MINUTE)
    engine.one(chores.promote(SCHEMA, now=engine.now))
    new = engine.worker()
    [claimed] = engine.claim(new)
    assert (claimed.job, claimed.attempt, claimed.run > lost.run) == (job, 2, True)
    running = engine.find(job)
    assert running is not None
    assert (running.state, running.worker, running.started_at) == ("running", new, engine.now)
    assert (running.error, running.result, running.finished_at, running.run_at, running.flag) == (None,) * 5
    for transition in SETTLES:
        assert engine.settle(old, lost, transition).answer == "lost"
    beat = engine.one(runs.renew(SCHEMA, worker=old, lease=A_MINUTE, runs=[lost.run], now=engine.now))
    assert (beat.is_alive, beat.missing) == (False, [lost.run])
    assert engine.run(runs.save(SCHEMA, [runs.Saving(old, job, lost.run, "1", "2")], now=engine.now)) == []
    assert engine.find(job) == running
    assert engine.settle(new, claimed, CompleteJob(None, None)).answer == "settled"


@pytest.mark.requirement("S1.29", "S0.24")
@pytest.mark.parametrize("transition", SETTLES, ids=lambda each: type(each).__name__)
def test_no_ending_of_an_old_run_touches_the_new_run_of_the_same_worker(
    engine: Engine, transition: Any
) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [first] = engine.claim(worker)
    engine.settle(worker, first, ReleaseJob())
    [second] = engine.claim(worker)
    before = engine.find(job)
    assert engine.settle(worker, first, transition).answer == "already"
    assert engine.find(job) == before
    assert engine.settle(worker, second, CompleteJob(None, None)).answer == "settled"


@pytest.mark.requirement("S1.29")
def test_an_old_run_of_the_same_worker_is_fenced_from_its_new_one(engine: Engine) -> None:
    """The worker has the job a second time while a coroutine of the first time still goes on."""
    job, worker = engine.enqueue(), engine.worker()
    [first] = engine.claim(worker)
    engine.settle(worker, first, ReleaseJob())
    [second] = engine.claim(worker)
    assert engine.settle(worker, first, CompleteJob('"stale"', None)).answer == "already"
    assert engine.state(job) == "running"
    overdue = chores.rescue_overdue(
        SCHEMA, luck=0.5, grace=timedelta(), now=START + 2 * runs.TIMEOUT, retention=Retention()
    )
    engine.hold(overdue)
    engine.one(chores.promote(SCHEMA, now=START + 3 * runs.TIMEOUT))
    [third] = engine.claim(worker)
    assert engine.settle(worker, second, CompleteJob('"stale"', None)).answer == "lost"
    assert engine.settle(worker, third, CompleteJob('"fresh"', None)).answer == "settled"


@pytest.mark.requirement("S0.19", "S1.13")
def test_a_lease_that_has_run_out_can_still_be_settled_and_renewed_until_the_worker_is_marked(
    engine: Engine,
) -> None:
    one, two, worker = engine.enqueue(), engine.enqueue(), engine.worker()
    first, second = engine.claim(worker)
    engine.pass_time(2 * workers.LEASE)
    assert engine.settle(worker, first, CompleteJob(None, None)).answer == "settled"
    beat = runs.renew(SCHEMA, worker=worker, lease=A_MINUTE, runs=[second.run], now=engine.now)
    assert engine.one(beat)[:5] == (True, [], [], [], [])
    assert (engine.state(one), engine.state(two)) == ("succeeded", "running")
    engine.pass_time(2 * A_MINUTE)
    engine.run(workers.mark_lost(SCHEMA, now=engine.now))
    assert (
        engine.one(runs.renew(SCHEMA, worker=worker, lease=A_MINUTE, runs=[], now=engine.now)).is_alive
        is False
    )


def test_another_workers_number_does_not_open_the_fence(engine: Engine) -> None:
    job, worker, other = engine.enqueue(), engine.worker(), engine.worker()
    [claimed] = engine.claim(worker)
    assert engine.settle(other, claimed, CompleteJob(None, None)).answer == "lost"
    assert engine.state(job) == "running"


@pytest.mark.parametrize("transition", [RetryJob(A_MINUTE, NO), SnoozeJob(A_MINUTE), ReleaseJob()])
def test_a_cancel_request_turns_going_on_into_cancelled(engine: Engine, transition: Any) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [claimed] = engine.claim(worker)
    engine.hold(operators.cancel(SCHEMA, [job], now=engine.now, retention=Retention()))
    assert engine.settle(worker, claimed, transition).outcome == "cancelled"
    assert engine.state(job) == "cancelled"


@pytest.mark.parametrize(
    ("transition", "state"), [(CompleteJob("1", None), "succeeded"), (FailJob(NO), "failed")]
)
def test_a_run_that_reached_its_end_keeps_it_in_spite_of_a_cancel_request(
    engine: Engine, transition: Any, state: str
) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [claimed] = engine.claim(worker)
    engine.hold(operators.cancel(SCHEMA, [job], now=engine.now, retention=Retention()))
    assert engine.settle(worker, claimed, transition).outcome == state
    assert engine.state(job) == state


@pytest.mark.requirement("S2.32")
def test_a_retry_behind_the_deadline_is_expired_and_final(engine: Engine) -> None:
    job, worker = engine.enqueue(deadline_at=START + A_MINUTE), engine.worker()
    [claimed] = engine.claim(worker)
    engine.pass_time(A_MINUTE)
    assert engine.settle(worker, claimed, RetryJob(A_MINUTE, NO)).outcome == "expired"
    assert engine.state(job) == "expired"
    assert engine.dead() == []


def test_settling_counts_once_for_each_minute_queue_kind_and_outcome(engine: Engine) -> None:
    worker = engine.worker(queues=("default", "other"))
    for queue in ("default", "default", "other"):
        engine.enqueue(Policy("mail", queue=queue))
    for queue in ("default", "other"):
        for claimed in engine.claim(worker, queue=queue):
            engine.pass_time(timedelta(seconds=2))
            engine.settle(worker, claimed, CompleteJob(None, None))
    assert engine.one(chores.fold(SCHEMA)).folded == 3
    assert engine.one(chores.fold(SCHEMA)).folded == 0
    rows = engine.connection.execute(
        "select minute, queue, kind, outcome::text, runs, run_time from holdfast.counter order by 2"
    )
    assert rows.fetchall() == [
        (START, "default", "mail", "succeeded", 2, timedelta(seconds=6)),
        (START, "other", "mail", "succeeded", 1, timedelta(seconds=2)),
    ]


@pytest.mark.requirement("S1.22")
def test_a_job_that_keeps_nothing_is_gone_when_it_has_succeeded(engine: Engine) -> None:
    job, worker = engine.enqueue(Policy("mail", keep=timedelta())), engine.worker()
    [claimed] = engine.claim(worker)
    engine.settle(worker, claimed, CompleteJob(None, None))
    assert engine.find(job) is None
    assert engine.settle(worker, claimed, CompleteJob(None, None)).answer == "already"


@pytest.mark.requirement("S1.6")
def test_what_a_run_saved_comes_with_the_next_attempt(engine: Engine) -> None:
    job, worker = engine.enqueue(), engine.worker()
    [claimed] = engine.claim(worker)
    assert claimed.state is None
    assert engine.run(runs.save(SCHEMA, [runs.Saving(worker, job, claimed.run, '{"page": 7}')])) == [
        claimed.run
    ]
    assert engine.run(runs.save(SCHEMA, [runs.Saving(worker, job, claimed.run, progress="0.5")])) == [
        claimed.run
    ]
    engine.settle(worker, claimed, FailJob(NO))
    assert engine.claim(worker) == []  # never by itself
    engine.hold(operators.resume_dead(SCHEMA, [job], now=engine.now))
    [again] = engine.claim(worker)
    assert again.state == '{"page": 7}'


@pytest.mark.requirement("S4.2")
def test_every_state_and_every_outcome_can_be_reached(engine: Engine) -> None:
    worker = engine.worker()
    reached = set()
    for n, transition in enumerate(SETTLES):
        job = engine.enqueue(Policy("mail", priority=9 - n))  # before those that go on
        reached.add(engine.state(job))
        [claimed] = engine.claim(worker, limit=1)
        reached.add(engine.state(job))
        engine.settle(worker, claimed, transition)
        reached.add(engine.state(job))
    late = engine.enqueue(deadline_at=START + A_MINUTE)
    engine.pass_time(A_MINUTE)
    engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention()))
    reached.add(engine.state(late))
    assert reached == {"ready", "running", "scheduled", "succeeded", "failed", "cancelled", "expired"}
    outcomes = engine.connection.execute("select distinct outcome from holdfast.ledger order by 1").fetchall()
    known = engine.connection.execute("select unnest(enum_range(null::holdfast.outcome))").fetchall()
    assert outcomes == known
