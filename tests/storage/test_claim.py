"""Claiming: what may run now, most urgent and oldest first, each job to one worker."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob, FailJob, ReleaseJob, RetryJob
from holdfast.storage import chores, operators, runs, workers
from support.engine import SCHEMA, START, Engine

A_MINUTE = timedelta(minutes=1)
NO = Failure("no")


@pytest.mark.requirement("S0.5", "S4.7", "S4.11", "S4.12", "S2.27")
def test_a_claim_writes_the_lease_and_its_start_and_counts_the_attempt(engine: Engine) -> None:
    job = engine.enqueue(Policy("mail", max_attempts=7, timeout=A_MINUTE, tags=("a",)), {"to": "me"})
    engine.pass_time(timedelta(seconds=5))
    worker = engine.worker()
    [claimed] = engine.claim(worker)
    now = START + timedelta(seconds=5)
    assert (claimed.job, claimed.attempt, claimed.max_attempts) == (job, 1, 7)
    assert (claimed.kind, claimed.args, claimed.tags) == ("mail", '{"to":"me"}', ["a"])
    assert (claimed.started_at, claimed.timeout_at, claimed.created_at) == (now, now + A_MINUTE, START)
    found = engine.find(job)
    assert found is not None
    assert (found.state, found.worker, found.attempt, found.started_at) == ("running", worker, 1, now)


@pytest.mark.requirement("S0.5")
def test_every_claim_gets_a_run_that_no_other_ever_had(engine: Engine) -> None:
    worker = engine.worker()
    for _ in range(5):
        engine.enqueue()
    claimed = engine.claim(worker, limit=3) + engine.claim(worker)
    for row in claimed:
        engine.settle(worker, row, ReleaseJob())
    again = engine.claim(worker)
    assert len({row.run for row in claimed + again}) == 10
    assert min(row.run for row in again) > max(row.run for row in claimed)


@pytest.mark.requirement("S1.3", "S4.9")
def test_the_most_urgent_come_first_and_among_those_the_oldest(engine: Engine) -> None:
    asked = [
        (priority, engine.enqueue(Policy("mail", priority=priority))) for priority in (5, 9, 0, 5, 0, 9, 3)
    ]
    worker = engine.worker()
    claimed = [row.job for _ in asked for row in engine.claim(worker, limit=1)]
    assert claimed == [job for _, job in sorted(asked)]


def test_a_claim_behind_a_job_takes_only_what_comes_after_it(engine: Engine) -> None:
    asked = sorted((p, engine.enqueue(Policy("mail", priority=p))) for p in (5, 9, 0, 5, 0, 9, 3))
    worker = engine.worker()
    for place in reversed(range(len(asked))):
        claimed = engine.claim(worker, after=asked[place])
        assert [(row.priority, row.job) for row in claimed] == asked[place + 1 : place + 2]
    assert [row.job for row in engine.claim(worker)] == [asked[0][1]]


@pytest.mark.requirement("S4.7")
def test_a_claim_takes_at_most_its_limit(engine: Engine) -> None:
    for _ in range(5):
        engine.enqueue()
    worker = engine.worker()
    assert [len(engine.claim(worker, limit=n)) for n in (0, 2, 10, 10)] == [0, 2, 3, 0]


@pytest.mark.requirement("S1.3", "S2.17", "S4.9", "S0.4")
def test_each_of_many_jobs_goes_to_exactly_one_of_many_claimers(dsn: str, engine: Engine) -> None:
    jobs = {engine.enqueue() for _ in range(300)}

    def claimer(_: int) -> list[int | None]:
        with Engine.on(dsn) as mine:
            worker, mine_all = mine.worker(), list[int | None]()
            while claimed := mine.claim(worker, limit=7):
                mine_all += [row.job for row in claimed]
            return mine_all

    with ThreadPoolExecutor(6) as pool:
        taken = [job for part in pool.map(claimer, range(6)) for job in part]
    assert len(taken) == len(jobs)
    assert set(taken) == jobs


@pytest.mark.requirement("S2.17", "S1.3")
def test_a_claim_skips_a_row_that_another_claim_has_locked(dsn: str, engine: Engine) -> None:
    first, second = engine.enqueue(), engine.enqueue()
    with Engine.on(dsn) as other, other.connection.transaction():
        assert [row.job for row in other.claim(other.worker(), limit=1)] == [first]
        engine.connection.execute("set statement_timeout = '5s'")
        assert [row.job for row in engine.claim(engine.worker())] == [second]


@pytest.mark.requirement("S2.17", "S0.4")
def test_with_nothing_to_do_a_claim_says_only_how_the_ring_stands(engine: Engine) -> None:
    rows = engine.run(runs.claim(SCHEMA, worker=engine.worker(), queue="default", kinds=["mail"], limit=5))
    assert [(row.ring_version, row.closed, row.job) for row in rows] == [(1, None, None)]


@pytest.mark.requirement("S0.4", "S1.4", "S2.20")
@pytest.mark.parametrize("state", ["running", "succeeded", "failed", "cancelled", "expired", "scheduled"])
def test_only_what_is_ready_can_be_claimed(engine: Engine, state: str) -> None:
    worker, other = engine.worker(), engine.worker()
    job = engine.enqueue(deadline_at=START + A_MINUTE)
    if state == "expired":
        engine.pass_time(A_MINUTE)
        engine.one(chores.expire(SCHEMA, now=engine.now, retention=Retention()))
    elif state == "cancelled":
        engine.hold(operators.cancel(SCHEMA, [job], now=engine.now, retention=Retention()))
    else:
        [claimed] = engine.claim(worker)
        settled = {
            "succeeded": CompleteJob(None, None),
            "failed": FailJob(NO),
            "scheduled": RetryJob(timedelta(1e-5), NO),
        }
        if state in settled:
            engine.settle(worker, claimed, settled[state])
    assert engine.state(job) == state
    assert engine.claim(other) == []
    assert engine.state(job) == state


@pytest.mark.requirement("S2.25", "S4.10")
def test_a_worker_gets_only_kinds_and_queues_that_it_names(engine: Engine) -> None:
    there = engine.enqueue(Policy("mail"))
    unknown = engine.enqueue(Policy("fax", priority=0))
    elsewhere = engine.enqueue(Policy("mail", queue="other", priority=0))
    worker = engine.worker()
    assert [row.job for row in engine.claim(worker)] == [there]
    assert [engine.state(job) for job in (unknown, elsewhere)] == ["ready", "ready"]
    assert engine.claim(worker, kinds=()) == []
    assert [row.job for row in engine.claim(worker, kinds=("fax", "mail"))] == [unknown]


@pytest.mark.requirement("S2.32")
def test_a_job_past_its_deadline_is_not_begun(engine: Engine) -> None:
    late, early = (
        engine.enqueue(deadline_at=START + A_MINUTE),
        engine.enqueue(deadline_at=START + 2 * A_MINUTE),
    )
    engine.pass_time(A_MINUTE)
    [claimed] = engine.claim(engine.worker())
    assert claimed.job == early
    assert engine.state(late) == "ready"
    assert claimed.timeout_at == START + 2 * A_MINUTE  # and what is begun ends with its deadline


def test_a_paused_queue_is_not_claimed_from_until_it_is_resumed_or_its_time_is_over(engine: Engine) -> None:
    job = engine.enqueue()
    worker = engine.worker()
    engine.one(operators.pause(SCHEMA, queue="default", length=A_MINUTE, now=engine.now))
    assert engine.claim(worker) == []
    assert engine.one(runs.look(SCHEMA, queues=["default"], kinds=["mail"], now=engine.now)).queues == []
    engine.pass_time(A_MINUTE)
    assert engine.one(runs.look(SCHEMA, queues=["default"], kinds=["mail"], now=engine.now)).queues == [
        "default"
    ]
    assert [row.job for row in engine.claim(worker)] == [job]


def test_a_worker_that_was_marked_lost_or_never_was_claims_nothing(engine: Engine) -> None:
    job = engine.enqueue()
    worker = engine.worker()
    engine.pass_time(2 * workers.LEASE)
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == [worker]
    assert engine.claim(worker) == []
    assert engine.claim(999_999) == []
    assert engine.state(job) == "ready"


def test_an_idle_poll_names_the_queues_with_work_in_the_workers_order(engine: Engine) -> None:
    for queue in ("a", "b", "c"):
        engine.enqueue(Policy("mail" if queue != "b" else "fax", queue=queue))
    found = engine.one(runs.look(SCHEMA, queues=["c", "nothing", "b", "a"], kinds=["mail"], now=engine.now))
    assert found == (1, None, ["c", "a"])


@pytest.mark.requirement("S4.14", "S1.15")
def test_a_claim_decodes_nothing_so_that_no_payload_can_fail_it(engine: Engine) -> None:
    for args in ({"n": 1}, {"unexpected": {"deep": [None] * 50}}, {"\u2028": "\x7f"}, {}):
        engine.enqueue(args=args)
    assert [type(row.args) for row in engine.claim(engine.worker())] == [str] * 4


@pytest.mark.requirement("S0.9", "S1.4", "S4.8")
def test_a_job_is_hidden_while_its_lease_lives_and_comes_back_when_it_has_expired(engine: Engine) -> None:
    worker = engine.worker()
    job = engine.enqueue()
    engine.claim(worker)
    engine.pass_time(workers.LEASE)
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == []  # at the very moment it still lives
    engine.pass_time(timedelta(microseconds=1))
    assert engine.run(workers.mark_lost(SCHEMA, now=engine.now)) == [worker]
    engine.hold(chores.rescue(SCHEMA, luck=0.5, now=engine.now, retention=Retention()))
    engine.pass_time(A_MINUTE)
    engine.one(chores.promote(SCHEMA, now=engine.now))
    other = engine.worker()
    assert [(row.job, row.attempt) for row in engine.claim(other)] == [(job, 2)]
