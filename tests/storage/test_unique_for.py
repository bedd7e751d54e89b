"""unique_for: a key is held for a time, also after its job has ended, and others are dropped until then."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CancelJob, CompleteJob, FailJob
from holdfast.domain.uniqueness import OnConflict
from holdfast.errors import DuplicateJob
from holdfast.storage import chores, job_verbs, jobs, operators
from holdfast.storage.fsck import CHECKS
from support.engine import SCHEMA, START, Engine

MINUTE = timedelta(minutes=1)
DONE = CompleteJob(None, None)


def throttled(key: str = "k", keep: timedelta | None = None, **more: Any) -> NewJob:
    return NewJob(Policy("mail", keep=keep), unique_key=key, unique_for=10 * MINUTE, **more)


def enqueue(engine: Engine, *new: NewJob, on_conflict: OnConflict = "existing") -> list[jobs.Enqueued]:
    return engine.hold(jobs.enqueue_many(SCHEMA, new, on_conflict=on_conflict, now=engine.now))


def at(engine: Engine, minutes: float) -> None:
    engine.now = START + minutes * MINUTE


def ended(engine: Engine, new: NewJob, transition: Any = DONE) -> int:
    [first] = enqueue(engine, new)
    assert first.is_new
    worker = engine.worker()
    [run] = engine.claim(worker)
    engine.settle(worker, run, transition)
    return first.job


def keys(engine: Engine) -> int:
    [(count,)] = engine.connection.execute("select count(*) from holdfast.unique_key")
    return int(count)


@pytest.mark.parametrize("transition", [DONE, FailJob(Failure("no")), CancelJob(None)])
def test_others_are_dropped_for_that_long_also_after_its_end(engine: Engine, transition: Any) -> None:
    first = ended(engine, throttled(), transition)
    at(engine, 9.9)
    assert enqueue(engine, throttled()) == [(first, False)]
    with pytest.raises(DuplicateJob, match="unique_for"):
        enqueue(engine, throttled(), on_conflict="raise")
    at(engine, 10)
    [next_one] = enqueue(engine, throttled())
    assert next_one.is_new
    at(engine, 19.9)
    assert enqueue(engine, throttled()) == [(next_one.job, False)]


def test_a_job_that_is_cancelled_or_expires_before_it_runs_keeps_its_key_too(engine: Engine) -> None:
    [first] = enqueue(engine, throttled())
    engine.hold(operators.cancel(SCHEMA, [first.job], now=engine.now, retention=Retention()))
    assert enqueue(engine, throttled()) == [(first.job, False)]
    [other] = enqueue(engine, throttled("other", deadline_in=MINUTE))
    at(engine, 2)
    engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention()))
    assert engine.state(other.job) == "expired"
    assert enqueue(engine, throttled("other")) == [(other.job, False)]


def test_a_job_that_is_still_active_holds_its_key_for_longer(engine: Engine) -> None:
    [first] = enqueue(engine, throttled())
    at(engine, 30)
    assert enqueue(engine, throttled()) == [(first.job, False)]
    worker = engine.worker()
    [run] = engine.claim(worker)
    assert enqueue(engine, throttled()) == [(first.job, False)]
    engine.settle(worker, run, DONE)
    [second] = enqueue(engine, throttled())
    assert second.is_new


@pytest.mark.parametrize("keep", [timedelta(), MINUTE])
def test_a_key_outlives_a_job_that_is_deleted_before(engine: Engine, keep: timedelta) -> None:
    first = ended(engine, throttled(keep=keep))
    at(engine, 5)
    engine.run(chores.prune(SCHEMA, now=engine.now))
    assert engine.find(first) is None
    assert enqueue(engine, throttled()) == [(first, False)]
    at(engine, 10)
    assert enqueue(engine, throttled())[0].is_new


def test_an_operator_who_deletes_the_job_frees_its_key(engine: Engine) -> None:
    first = ended(engine, throttled())
    assert engine.hold(job_verbs.delete(SCHEMA, [first])) == {first: "deleted"}
    assert enqueue(engine, throttled())[0].is_new


def test_the_leader_sweeps_keys_whose_time_is_over(engine: Engine) -> None:
    ended(engine, throttled("gone", keep=timedelta()))
    ended(engine, throttled("ended"))
    [waiting] = enqueue(engine, throttled("waiting", delay=60 * MINUTE))
    at(engine, 9)
    assert engine.one(chores.prune_keys(SCHEMA, now=engine.now)) == 0
    at(engine, 11)
    assert engine.one(chores.prune_keys(SCHEMA, now=engine.now)) == 3
    assert keys(engine) == 1
    assert enqueue(engine, throttled("waiting")) == [(waiting.job, False)]
    assert engine.one(chores.prune_keys(SCHEMA, now=engine.now)) == 0, "looked at once, however long it waits"


def test_a_key_that_is_held_for_a_time_is_no_damage(engine: Engine) -> None:
    engine.now = None
    ended(engine, throttled())
    [check] = [check for check in CHECKS if check.of == "unique keys"]
    [sight] = engine.run(check.sights(SCHEMA, check.start, limit=100))
    assert sight.damage is None
    engine.connection.execute("update holdfast.unique_key set until = now() - interval '1 hour'")
    [sight] = engine.run(check.sights(SCHEMA, check.start, limit=100))
    assert sight.damage == "stale_key"


def test_a_moved_job_takes_the_time_along(engine: Engine) -> None:
    [first] = enqueue(engine, throttled())
    assert engine.hold(job_verbs.move(SCHEMA, [first.job], queue="slow", now=engine.now)) == {
        first.job: "moved"
    }
    [(until,)] = engine.connection.execute("select until from holdfast.unique_key")
    assert until == START + 10 * MINUTE


def test_a_dead_job_that_is_retried_has_its_own_key(engine: Engine) -> None:
    first = ended(engine, throttled(), FailJob(Failure("no")))
    assert engine.hold(operators.retry_dead(SCHEMA, [first], now=engine.now)) == {first: "retried"}
    assert enqueue(engine, throttled()) == [(first, False)]


def test_the_enqueue_that_takes_the_key_decides_for_how_long(engine: Engine) -> None:
    first = ended(engine, throttled())
    assert enqueue(engine, NewJob(Policy("mail"), unique_key="k")) == [(first, False)]
    at(engine, 10)
    plain = ended(engine, NewJob(Policy("mail"), unique_key="k"))
    assert enqueue(engine, throttled())[0].job != plain


def test_a_debounced_job_is_never_dropped(engine: Engine) -> None:
    ended(engine, throttled())
    [second] = enqueue(engine, NewJob(Policy("mail"), unique_key="k", debounce=MINUTE))
    assert second.is_new
