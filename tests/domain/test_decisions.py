"""What happens next to a job and to the ring is decided purely, and holds for every input."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.policies import backoffs, lengths, lucks
from holdfast.domain.backoff import (
    Backoff,
)
from holdfast.domain.duration import LONGEST
from holdfast.domain.failure import Failure
from holdfast.domain.outcome import (
    AttemptOutcome,
    Cancelled,
    Failed,
    Lost,
    Released,
    Snoozed,
    Succeeded,
    Unreadable,
)
from holdfast.domain.ring import SEGMENTS, Pace, Ring, next_moves, segments_without
from holdfast.domain.transition import (
    UNREADABLE_FOR,
    CancelJob,
    CompleteJob,
    FailJob,
    ReleaseJob,
    RetryJob,
    Run,
    SnoozeJob,
    decide,
)

any_lengths = st.timedeltas()
# Everything a handler may raise: surrogates and NUL included.
texts = st.text(st.characters(), max_size=50)
failures = st.builds(Failure, texts, st.sampled_from(["handler_error", "timeout"]))
attempts = st.integers(1, 32_767)
policies = st.sampled_from(["retry", "fail"])
runs = st.builds(Run, attempts, attempts, backoffs, policies)
early_runs = st.builds(lambda one, more, backoff: Run(one, one + more, backoff), attempts, attempts, backoffs)
last_runs = st.builds(lambda last, backoff: Run(last, last, backoff), attempts, backoffs)
only_runs = st.builds(Run, attempts, attempts, backoffs, st.just("fail"))
lost = st.builds(Lost, st.sampled_from([Failure("gone", "lease_lost"), Failure("late", "stale_timeout")]))
outcomes: st.SearchStrategy[AttemptOutcome] = st.one_of(
    st.builds(Succeeded),
    st.builds(Failed, failures, st.none() | any_lengths, st.booleans()),
    st.builds(Unreadable, failures, lengths),
    st.builds(Snoozed, any_lengths),
    st.just(Released()),
    st.builds(Cancelled, st.none() | failures),
    lost,
)


@given(runs, outcomes, lucks)
def test_there_is_an_answer_for_every_outcome_and_its_delay_can_be_stored(
    run: Run, outcome: AttemptOutcome, luck: float
) -> None:
    transition = decide(run, outcome, luck)
    if isinstance(transition, RetryJob | SnoozeJob):
        assert timedelta() <= transition.delay <= LONGEST


@pytest.mark.requirement("S1.19", "S1.21", "S4.17", "S4.18")
@given(runs, outcomes, lucks)
def test_nothing_is_tried_again_after_the_last_attempt(
    run: Run, outcome: AttemptOutcome, luck: float
) -> None:
    if isinstance(decide(run, outcome, luck), RetryJob):
        assert run.attempt < run.max_attempts


@pytest.mark.requirement("S1.18")
@given(st.integers(1, 30), backoffs, lucks, failures)
def test_a_job_that_always_fails_runs_as_often_as_its_limit_says(
    limit: int, backoff: Backoff, luck: float, failure: Failure
) -> None:
    attempt = 1
    while isinstance(decide(Run(attempt, limit, backoff), Failed(failure), luck), RetryJob):
        attempt += 1
    assert attempt == limit


@pytest.mark.requirement("S2.31")
@given(runs, st.none() | st.just("{}"), lucks)
def test_success_completes_also_on_the_last_attempt(run: Run, result: str | None, luck: float) -> None:
    assert decide(run, Succeeded(result), luck) == CompleteJob(result, None)


@pytest.mark.requirement("S3.26")
@given(early_runs, lost, lucks)
def test_a_lost_run_waits_as_its_policy_says(run: Run, outcome: Lost, luck: float) -> None:
    assert decide(run, outcome, luck) == RetryJob(run.backoff.delay(run.attempt, luck), outcome.failure)


@pytest.mark.requirement("S4.13", "S3.26")
@given(last_runs, lost, lucks)
def test_a_job_that_kills_its_workers_runs_out_of_attempts(run: Run, outcome: Lost, luck: float) -> None:
    transition = decide(run, outcome, luck)
    assert isinstance(transition, FailJob)
    assert transition.failure.code == outcome.failure.code
    assert transition.failure.message.endswith("attempts exhausted")


@pytest.mark.requirement("S0.16")
@given(only_runs, lost, lucks)
def test_a_lost_run_that_must_not_run_twice_fails(run: Run, outcome: Lost, luck: float) -> None:
    assert decide(run, outcome, luck) == FailJob(outcome.failure)


@given(runs, failures, any_lengths, lucks)
def test_an_error_that_is_not_worth_another_try_fails_at_once(
    run: Run, failure: Failure, delay: timedelta, luck: float
) -> None:
    assert decide(run, Failed(failure, delay, is_retryable=False), luck) == FailJob(failure)


@given(early_runs, failures, lengths, lucks)
def test_a_delay_that_the_handler_asks_for_wins_over_the_policy(
    run: Run, failure: Failure, delay: timedelta, luck: float
) -> None:
    assert decide(run, Failed(failure, delay), luck) == RetryJob(delay, failure)


@given(runs, failures, st.timedeltas(timedelta(), 2 * UNREADABLE_FOR), lucks)
def test_arguments_that_another_version_may_know_wait_ten_minutes_without_an_attempt(
    run: Run, failure: Failure, age: timedelta, luck: float
) -> None:
    transition = decide(run, Unreadable(failure, age), luck)
    assert isinstance(transition, SnoozeJob if age < UNREADABLE_FOR else FailJob)
    assert transition.failure == failure


@given(runs, failures, st.timedeltas(timedelta(), UNREADABLE_FOR - timedelta(microseconds=1)), lucks)
def test_arguments_that_do_not_fit_are_tried_ever_more_slowly_whatever_the_jobs_policy(
    run: Run, failure: Failure, age: timedelta, luck: float
) -> None:
    transition = decide(run, Unreadable(failure, age), luck)
    assert isinstance(transition, SnoozeJob)
    assert timedelta(seconds=1) <= transition.delay <= timedelta(minutes=1)
    assert transition.delay >= min(age / 6, timedelta(minutes=1))


@pytest.mark.requirement("S4.20")
@given(runs, lucks)
def test_a_stopping_worker_releases_and_never_fails(run: Run, luck: float) -> None:
    assert decide(run, Released(), luck) == ReleaseJob()
    assert decide(run, Cancelled(), luck) == CancelJob(None)


rings = st.builds(
    Ring,
    st.integers(1, 9),
    st.sampled_from(SEGMENTS),
    st.none() | st.sampled_from(SEGMENTS),
    st.timedeltas(timedelta(), timedelta(minutes=1)),
    st.tuples(*[st.sampled_from([0, 8192, 10**6])] * 4),
    st.tuples(*[st.booleans()] * 4),
)
paces = st.builds(Pace, st.sampled_from([1, 8193]), st.timedeltas(timedelta(), timedelta(minutes=1)))


@given(rings, paces)
def test_the_ring_turns_only_to_an_empty_open_segment(ring: Ring, pace: Pace) -> None:
    to = next_moves(ring, pace).turn_to
    if to is not None:
        assert to not in (ring.current, ring.closed)
        assert ring.sizes[to] == 0


@given(rings, paces)
def test_the_ring_is_never_cleared_where_new_rows_go_or_jobs_are_left(ring: Ring, pace: Pace) -> None:
    moves = next_moves(ring, pace)
    for segment in moves.clear:
        assert segment != ring.current
        assert ring.drained[segment]
    assert moves.gather is None or moves.gather not in (ring.current, *moves.clear)


@given(rings, paces)
def test_the_ring_turns_when_it_is_time_and_makes_room_when_there_is_none(ring: Ring, pace: Pace) -> None:
    size, moves = ring.sizes[ring.current], next_moves(ring, pace)
    is_time = size >= pace.full or (size > 0 and ring.age >= pace.old)
    has_room = any(
        ring.sizes[segment] == 0 for segment in SEGMENTS if segment not in (ring.current, ring.closed)
    )
    assert (moves.turn_to is not None) == (is_time and has_room)
    assert has_room or moves.clear or moves.gather is not None


@given(st.none() | st.sampled_from(SEGMENTS))
def test_claims_leave_out_only_what_is_closed(closed: int | None) -> None:
    assert {*segments_without(closed), closed} - {None} == set(SEGMENTS)
    assert closed not in segments_without(closed)
