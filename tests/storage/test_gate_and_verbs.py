"""Whatever is done to a limited job, wherever it waits: its permits are counted, and the others go on."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import FailJob, RetryJob
from holdfast.storage import chores, job_verbs, jobs, operators, ring
from storage.gate import (
    DONE,
    admit,
    assert_accounts,
    declare,
    enqueue,
    ids,
    lanes,
    limited,
    settle,
)
from support.engine import SCHEMA, Engine

HOUR = timedelta(hours=1)
RETRY = RetryJob(HOUR, Failure("no"))

Verb = Callable[[Engine, int], object]


def _cancel(engine: Engine, job: int) -> object:
    return engine.hold(operators.cancel(SCHEMA, [job], now=engine.now, retention=Retention()))


def _expire(engine: Engine, job: int) -> object:
    for table in ("ready", "scheduled"):
        engine.connection.execute(
            f"update holdfast.{table} set deadline_at = %s where job = %s".encode(), (engine.now, job)
        )
    return engine.run(chores.expire(SCHEMA, retention=Retention(), now=engine.now))


def _replace(engine: Engine, job: int) -> object:
    new = limited(("a", "new"), unique_key=f"key {job}")
    return engine.run(jobs.replace(SCHEMA, [(job, new)], notify=True, now=engine.now))


def _replace_by_unlimited(engine: Engine, job: int) -> object:
    return engine.run(jobs.replace(SCHEMA, [(job, limited())], notify=True, now=engine.now))


def _replace_for_later(engine: Engine, job: int) -> object:
    new = limited(("a", "k"), ("b", ""), delay=HOUR)
    return engine.run(jobs.replace(SCHEMA, [(job, new)], notify=True, now=engine.now))


def _park(engine: Engine, job: int) -> object:
    """Its queue is paused, and it is set aside; then the queue is resumed."""
    queue = engine.connection.execute("select queue from holdfast.job where id = %s", (job,)).fetchone()
    assert queue is not None
    engine.run(operators.pause(SCHEMA, queue=queue[0], now=engine.now))
    for segment in range(4):
        engine.run(ring.park(SCHEMA, segment=segment, is_only_limited=True, now=engine.now))
    engine.run(ring.park_gated(SCHEMA, now=engine.now))
    assert_accounts(engine)
    admit(engine)
    assert lanes(engine) == {}  # but for what is kept to the end
    engine.run(operators.resume(SCHEMA, queue=queue[0], now=engine.now))
    return engine.run(ring.unpark(SCHEMA, now=engine.now))


VERBS: dict[str, Verb] = {
    "cancel": _cancel,
    "expire": _expire,
    "delete": lambda engine, job: engine.hold(job_verbs.delete(SCHEMA, [job])),
    "replace": _replace,
    "replace by an unlimited one": _replace_by_unlimited,
    "replace for later": _replace_for_later,
    "reschedule": lambda engine, job: engine.hold(
        job_verbs.reschedule(SCHEMA, [job], delay=HOUR, now=engine.now)
    ),
    "run now": lambda engine, job: engine.hold(
        job_verbs.reschedule(SCHEMA, [job], delay=timedelta(), now=engine.now)
    ),
    "move": lambda engine, job: engine.hold(job_verbs.move(SCHEMA, [job], queue="other")),
    "reprioritise": lambda engine, job: engine.hold(operators.reprioritise(SCHEMA, [job], priority=1)),
    "park": _park,
}
PLACES = ("first gate", "second gate", "ready", "scheduled", "kept")


def placed(engine: Engine, place: str) -> tuple[int, int]:
    """A job with two limits in that place, and the worker. Others wait behind it."""
    hold = "job" if place == "kept" else "run"
    declare(engine, "a", per_key=1 if place == "first gate" else 2, hold=hold)
    declare(engine, "b", total=1)
    worker = engine.worker(queues=("default", "other"))
    new = limited(("a", "k"), ("b", ""))
    [first, second, *_] = enqueue(engine, *[new] * 4)
    admit(engine)
    if place in ("first gate", "second gate"):
        assert engine.state(second) == "gated"
        return second, worker
    if place == "ready":
        assert engine.state(first) == "ready"
        return first, worker
    settle(engine, worker, engine.claim(worker), RETRY)
    admit(engine)
    assert engine.state(first) == "scheduled"
    return first, worker


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", PLACES)
def test_every_verb_at_every_place_leaves_the_permits_right(engine: Engine, place: str, verb: str) -> None:
    if verb == "park" and place in ("scheduled", "kept"):
        pytest.skip("only ready jobs are parked")
    job, worker = placed(engine, place)
    assert_accounts(engine)
    VERBS[verb](engine, job)
    assert_accounts(engine)
    for _ in range(12):
        admit(engine)
        assert_accounts(engine)
        claimed = engine.claim(worker) + engine.claim(worker, queue="other")
        in_b = engine.connection.execute(
            "select count(*) from holdfast.lease l join holdfast.job j on j.id = l.job"
            " where 'b' = any(j.limits)"
        ).fetchone()
        assert in_b is not None
        assert in_b[0] <= 1
        if claimed:
            settle(engine, worker, claimed)
        else:
            engine.pass_time(2 * HOUR)
            engine.run(chores.promote(SCHEMA, now=engine.now))
    admit(engine)
    assert lanes(engine) == {}
    assert_accounts(engine)
    left = engine.connection.execute(
        "select id, state from holdfast.jobs where finished_at is null"
    ).fetchall()
    assert left == []


def test_a_gated_job_that_is_moved_waits_at_its_place(engine: Engine) -> None:
    declare(engine, per_key=1)
    engine.worker()
    [_, second] = enqueue(engine, *[limited("acme")] * 2)
    admit(engine)
    engine.hold(job_verbs.move(SCHEMA, [second], queue="other"))
    assert engine.state(second) == "gated"
    engine.hold(operators.reprioritise(SCHEMA, [second], priority=2))
    row = engine.connection.execute(
        "select queue, priority, limit_name, limit_key from holdfast.ready_gated"
    ).fetchone()
    assert row == ("other", 2, "stripe", "acme")


def test_a_dead_job_that_is_retried_comes_to_the_gate(engine: Engine) -> None:
    declare(engine, per_key=1)
    worker = engine.worker()
    [first, second] = enqueue(engine, *[limited("acme")] * 2)
    admit(engine)
    settle(engine, worker, engine.claim(worker), FailJob(Failure("no")))
    assert engine.hold(operators.retry_dead(SCHEMA, [first], now=engine.now)) == {first: "retried"}
    assert engine.state(first) == "gated"
    admit(engine)
    claimed = engine.claim(worker)
    assert ids(claimed) == [second]
    settle(engine, worker, claimed, DONE)
    assert ids(engine.claim(worker)) == [first]
    assert_accounts(engine)


def test_lists_find_gated_jobs_apart_from_ready_ones(engine: Engine) -> None:
    declare(engine, per_key=1)
    engine.worker()
    [first, second] = enqueue(engine, *[limited("acme")] * 2)
    enqueue(engine, limited(policy=Policy("mail", queue="other")))
    admit(engine)
    rows = engine.connection.execute("select id, state, limit_name, limit_key from holdfast.jobs order by id")
    assert rows.fetchall() == [
        (first, "ready", None, None),
        (second, "gated", "stripe", "acme"),
        (3, "ready", None, None),
    ]
