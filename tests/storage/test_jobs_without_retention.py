"""Jobs that keep nothing leave nothing behind, and a replaced job starts without the old one's state."""

from datetime import timedelta

from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.transition import FailJob, RetryJob
from holdfast.storage import jobs, operators, runs
from support.engine import SCHEMA, Engine

FAILURE = Failure("no route to host")


def test_a_job_that_keeps_nothing_is_not_kept_among_the_dead(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        worker, job = engine.worker(), engine.enqueue(Policy("mail", keep=timedelta()))
        [claimed] = engine.claim(worker)
        assert engine.settle(worker, claimed, FailJob(FAILURE)).answer == "settled"
        assert engine.hold(operators.resume_dead(SCHEMA, [job], now=engine.now)) == {job: "unknown"}
        assert engine.dead() == []
        assert engine.settle(worker, claimed, FailJob(FAILURE)).answer == "already"


def test_a_replaced_job_begins_without_what_the_old_one_saved(dsn: str) -> None:
    with Engine.on(dsn) as engine:
        worker, job = engine.worker(), engine.enqueue(unique_key="report")
        [claimed] = engine.claim(worker)
        saving = runs.Saving(worker, job, claimed.run, state='{"page": 7}')
        engine.run(runs.save(SCHEMA, [saving], now=engine.now))
        engine.settle(worker, claimed, RetryJob(timedelta(seconds=5), FAILURE))
        new = NewJob(Policy("mail"), '{"another": "report"}', unique_key="report")
        engine.hold(jobs.enqueue_many(SCHEMA, [new], on_conflict="replace", now=engine.now))
        [again] = engine.claim(worker)
        assert (again.job, again.attempt, again.state) == (job, 1, None)
