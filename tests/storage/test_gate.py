"""A limited job waits at its gate until a permit is free, and gives it back where its run ends."""

from datetime import timedelta

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CancelJob, FailJob, ReleaseJob, RetryJob, SnoozeJob, Transition
from holdfast.storage import chores, jobs, limits, runs
from holdfast.storage.shared_limits import Turn
from storage.gate import (
    MAIL,
    admit,
    admit_once,
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
NO = Failure("no")
RETRY = RetryJob(HOUR, NO)


def test_a_limited_job_is_gated_until_it_is_admitted(engine: Engine) -> None:
    declare(engine, per_key=1)
    worker = engine.worker()
    [job] = enqueue(engine, limited("acme"))
    assert engine.state(job) == "gated"
    assert engine.claim(worker) == []
    assert admit(engine) == 1
    assert engine.state(job) == "ready"
    [claimed] = engine.claim(worker)
    assert (claimed.job, claimed.is_limited, claimed.is_plain) == (job, True, False)
    assert_accounts(engine)


def test_an_unlimited_job_says_so(engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue()
    [claimed] = engine.claim(worker)
    assert (claimed.is_limited, claimed.is_plain) == (False, True)


@pytest.mark.parametrize("number", [1, 3])
def test_of_each_key_as_many_run_as_the_limit_allows(engine: Engine, number: int) -> None:
    declare(engine, per_key=number)
    worker = engine.worker()
    acme = enqueue(engine, *[limited("acme")] * 5)
    other = enqueue(engine, limited("other"))
    assert admit(engine) == number + 1
    assert set(ids(engine.claim(worker))) == {*acme[:number], *other}
    assert admit(engine) == 0
    assert_accounts(engine)


def test_a_run_that_ends_hands_its_permit_to_the_next_of_its_key(engine: Engine) -> None:
    declare(engine, per_key=1)
    worker = engine.worker()
    [first, second, third] = enqueue(engine, *[limited("acme")] * 3)
    admit(engine)
    claimed = engine.claim(worker)
    [answer] = settle(engine, worker, claimed)
    assert isinstance(answer, runs.SettledAndHandedOn)
    assert (list(answer.woken), answer.is_knocking) == (["default"], False)
    assert [engine.state(job) for job in (first, second, third)] == ["succeeded", "ready", "gated"]
    assert_accounts(engine)


def test_the_last_of_a_key_takes_its_lane_along(engine: Engine) -> None:
    declare(engine, per_key=1)
    worker = engine.worker()
    enqueue(engine, limited("acme"), limited("other"))
    admit(engine)
    answers = settle(engine, worker, engine.claim(worker))
    assert not any(isinstance(answer, runs.SettledAndHandedOn) for answer in answers)
    assert lanes(engine) == {}
    assert admit_once(engine).taken == 0


def test_a_limit_that_is_not_direct_gets_its_permits_back_by_knocks(engine: Engine) -> None:
    declare(engine, per_key=1)
    worker = engine.worker()
    [_, second] = enqueue(engine, *[limited("acme")] * 2)
    admit(engine)
    engine.connection.execute("update holdfast.limit_rule set is_direct = false")
    [answer] = settle(engine, worker, engine.claim(worker))
    assert isinstance(answer, runs.SettledAndHandedOn)
    assert answer.is_knocking
    assert engine.state(second) == "gated"
    assert_accounts(engine)
    assert admit(engine) == 1
    assert ids(engine.claim(worker)) == [second]
    assert_accounts(engine)


@pytest.mark.parametrize("total", [1, 4])
def test_a_limit_without_keys_counts_all_of_its_jobs(engine: Engine, total: int) -> None:
    declare(engine, "cpu", total=total)
    worker = engine.worker()
    waiting = enqueue(engine, *[limited(("cpu", ""))] * 9)
    admit(engine)
    done: list[int | None] = []
    while claimed := engine.claim(worker):
        assert len(claimed) == min(total, 9 - len(done))
        assert_accounts(engine)
        settle(engine, worker, claimed)
        done += ids(claimed)
        admit(engine)
    assert done == waiting
    assert lanes(engine) == {}


def test_a_job_passes_its_second_limit_while_it_holds_the_first(engine: Engine) -> None:
    declare(engine, "a", per_key=2)
    declare(engine, "b", total=1)
    worker = engine.worker()
    two = [limited(("a", "k"), ("b", ""))] * 3
    [first, second, third] = enqueue(engine, *two)
    assert admit(engine) == 3  # two through the first gate, one of them through the second
    rows = engine.connection.execute(
        "select job, limit_name, next_limit from holdfast.ready_gated order by job"
    ).fetchall()
    assert rows == [(second, "b", None), (third, "a", "b")]
    assert lanes(engine) == {("a", "k"): 2, ("b", ""): 1}
    assert_accounts(engine)
    claimed = engine.claim(worker)
    assert ids(claimed) == [first]
    settle(engine, worker, claimed)
    assert_accounts(engine)
    admit(engine)
    claimed = engine.claim(worker)
    assert ids(claimed) == [second]
    settle(engine, worker, claimed)
    admit(engine)
    settle(engine, worker, engine.claim(worker))
    admit(engine)
    assert engine.state(third) == "succeeded"
    assert lanes(engine) == {}
    assert_accounts(engine)


@pytest.mark.parametrize(
    "transition",
    [RETRY, SnoozeJob(HOUR, None), ReleaseJob(), FailJob(NO), CancelJob(None)],
    ids=lambda t: t.outcome,
)
def test_every_end_of_a_run_lets_the_next_of_its_key_begin(engine: Engine, transition: Transition) -> None:
    declare(engine, per_key=1)
    worker = engine.worker()
    [first, second] = enqueue(engine, *[limited("acme")] * 2)
    admit(engine)
    settle(engine, worker, engine.claim(worker), transition)
    assert_accounts(engine)
    admit(engine)
    assert_accounts(engine)
    claimed = engine.claim(worker)
    assert ids(claimed) == [second]
    settle(engine, worker, claimed)
    assert engine.state(first) == {"retried": "scheduled", "snoozed": "scheduled", "released": "ready"}.get(
        transition.outcome, transition.outcome
    )
    engine.pass_time(2 * HOUR)
    engine.run(chores.promote(SCHEMA, now=engine.now))
    admit(engine)
    again = ids(engine.claim(worker))
    assert again == ([first] if transition.outcome in ("retried", "snoozed", "released") else [])
    assert_accounts(engine)


@pytest.mark.parametrize("transition", [RETRY, SnoozeJob(HOUR, None), ReleaseJob()], ids=lambda t: t.outcome)
def test_a_job_that_holds_its_permit_to_its_end_is_the_next_of_its_key(
    engine: Engine, transition: Transition
) -> None:
    declare(engine, per_key=1, hold="job")
    worker = engine.worker()
    [first, second] = enqueue(engine, *[limited("acme")] * 2)
    admit(engine)
    settle(engine, worker, engine.claim(worker), transition)
    assert admit(engine) == 0
    assert_accounts(engine)
    if transition.outcome != "released":
        assert engine.claim(worker) == []
        assert engine.state(second) == "gated"
        engine.pass_time(2 * HOUR)
        engine.run(chores.promote(SCHEMA, now=engine.now))
    claimed = engine.claim(worker)
    assert ids(claimed) == [first]
    assert_accounts(engine)
    settle(engine, worker, claimed)
    admit(engine)
    assert ids(engine.claim(worker)) == [second]
    assert_accounts(engine)


def test_what_a_job_keeps_of_its_second_limit_it_keeps_of_its_first(engine: Engine) -> None:
    """Or it would hold what another waits for that holds what it waits for."""
    declare(engine, "a", total=1)
    declare(engine, "b", total=1, hold="job")
    worker = engine.worker()
    [first, second] = enqueue(engine, *[limited(("a", ""), ("b", ""))] * 2)
    admit(engine)
    settle(engine, worker, engine.claim(worker), RETRY)
    assert_accounts(engine)
    assert admit(engine) == 0
    engine.pass_time(2 * HOUR)
    engine.run(chores.promote(SCHEMA, now=engine.now))
    for job in (first, second):
        admit(engine)
        claimed = engine.claim(worker)
        assert ids(claimed) == [job]
        settle(engine, worker, claimed)
        assert_accounts(engine)


def test_delayed_unique_and_mixed_batches_come_to_the_gate(engine: Engine) -> None:
    declare(engine, per_key=1)
    worker = engine.worker()
    plain = NewJob(Policy("mail", priority=3))
    [later, unique, unlimited, costly] = enqueue(
        engine,
        limited("acme", delay=HOUR),
        limited("acme", unique_key="once"),
        plain,
        limited("acme", deadline_in=2 * HOUR),
    )
    assert [engine.state(job) for job in (later, unique, unlimited, costly)] == [
        "scheduled",
        "gated",
        "ready",
        "gated",
    ]
    [again] = engine.run(
        jobs.enqueue(SCHEMA, [limited("acme", unique_key="once")], notify=False, now=engine.now)
    )
    assert (again.job, again.is_new) == (unique, False)
    admit(engine)
    assert ids(engine.claim(worker)) == [unlimited, unique]
    engine.pass_time(HOUR)
    engine.run(chores.promote(SCHEMA, now=engine.now))
    assert engine.state(later) == "gated"
    assert_accounts(engine)


def test_the_most_urgent_of_a_key_goes_first_and_then_the_oldest(engine: Engine) -> None:
    declare(engine, per_key=1)
    worker = engine.worker()
    low = enqueue(engine, *[limited("acme", policy=Policy("mail", priority=7))] * 2)
    high = enqueue(engine, *[limited("acme", policy=Policy("mail", priority=1))] * 2)
    admit(engine)
    order = []
    while claimed := engine.claim(worker):
        order += ids(claimed)
        settle(engine, worker, claimed)
    assert order == [*high, *low]


def test_a_limit_that_nobody_has_declared_lets_everybody_pass_and_counts(engine: Engine) -> None:
    worker = engine.worker()
    enqueue(engine, *[limited("acme")] * 5)
    assert admit(engine) == 5
    assert lanes(engine) == {("stripe", "acme"): 5}
    settle(engine, worker, engine.claim(worker))
    admit(engine)
    assert_accounts(engine)
    assert lanes(engine) == {}


def test_more_than_one_turn_admits_at_once_are_admitted_by_the_next(engine: Engine) -> None:
    declare(engine, total=10)
    engine.worker()
    enqueue(engine, *[limited("")] * 9)
    turns = [engine.one(limits.admit_direct(SCHEMA, "stripe", most=4, now=engine.now)) for _ in range(4)]
    assert [(turn.passed, turn.again) for turn in turns] == [(4, 1), (4, 1), (1, 0), (0, 0)]
    assert_accounts(engine)


@pytest.mark.parametrize("way", ["paused", "unknown kind"])
def test_who_cannot_be_claimed_holds_no_permit(engine: Engine, way: str) -> None:
    declare(engine, "cpu", total=1)
    worker = engine.worker()
    policy = Policy("mail", queue="other") if way == "paused" else Policy("unheard of")
    engine.worker(queues=("other",))
    if way == "paused":
        engine.connection.execute("insert into holdfast.queue (name, paused_at) values ('other', now())")
    [stuck] = enqueue(engine, limited(("cpu", ""), policy=policy))
    [job] = enqueue(engine, limited(("cpu", "")))
    admit(engine)
    claimed = engine.claim(worker)
    assert ids(claimed) == [job]
    [next_one] = enqueue(engine, limited(("cpu", "")))
    settle(engine, worker, claimed)
    admit(engine)
    assert engine.state(stuck) == "gated"
    assert ids(engine.claim(worker)) == [next_one]
    assert_accounts(engine)


def test_handing_on_skips_who_cannot_be_claimed(engine: Engine) -> None:
    declare(engine, "cpu", total=1)
    worker = engine.worker()
    [first] = enqueue(engine, limited(("cpu", "")))
    admit(engine)
    [stuck] = enqueue(engine, limited(("cpu", ""), policy=Policy("unheard of")))
    [last] = enqueue(engine, limited(("cpu", "")))
    admit(engine)
    claimed = engine.claim(worker)
    assert ids(claimed) == [first]
    settle(engine, worker, claimed)
    assert [engine.state(job) for job in (stuck, last)] == ["gated", "ready"]
    assert_accounts(engine)


def test_a_sweep_knocks_for_those_whose_worker_has_come(engine: Engine) -> None:
    declare(engine, per_key=1)
    [job] = enqueue(engine, limited("acme"))
    assert admit(engine) == 0
    assert engine.one(limits.sweep_gate(SCHEMA, now=engine.now)).knocked == 0
    worker = engine.worker()
    assert engine.one(limits.sweep_gate(SCHEMA, now=engine.now)) == (1, 1, "stripe", "acme")
    assert admit(engine) == 1
    assert ids(engine.claim(worker)) == [job]
    assert_accounts(engine)


def test_a_sweep_goes_through_the_keys_in_pages(engine: Engine) -> None:
    declare(engine, per_key=1)
    engine.worker()
    enqueue(engine, *[limited(f"k{n}") for n in range(5) for _ in range(2)])
    admit(engine)
    engine.connection.execute("delete from holdfast.lane where key = 'k3'")
    page = engine.one(limits.sweep_gate(SCHEMA, limit=3, now=engine.now))
    assert page == (0, 3, "stripe", "k2")
    page = engine.one(limits.sweep_gate(SCHEMA, after=("stripe", "k2"), limit=3, now=engine.now))
    assert page == (1, 2, "stripe", "k4")


def test_a_worker_that_is_quiet_serves_nothing_at_a_gate(engine: Engine) -> None:
    declare(engine, per_key=1)
    engine.worker()
    engine.connection.execute("update holdfast.worker set activity = 'quiet'")
    enqueue(engine, limited("acme"))
    assert admit(engine) == 0


def test_a_limit_becomes_direct_when_no_key_holds_more_than_it_may(engine: Engine) -> None:
    declare(engine, per_key=3, is_direct=False)
    worker = engine.worker()
    enqueue(engine, *[limited("acme")] * 4)
    assert _settled_down(engine).is_direct
    engine.connection.execute(
        "update holdfast.limit_rule set per_key = 2, is_direct = false, changed_at = now()"
    )
    enqueue(engine, limited("other"))
    assert not _settled_down(engine).is_direct
    claimed = engine.claim(worker)
    settle(engine, worker, [row for row in claimed if row.job == 1])
    assert _settled_down(engine).is_direct  # two of two are held
    settle(engine, worker, [row for row in claimed if row.job == 2])
    assert ids(engine.claim(worker)) == [4]
    assert_accounts(engine)


def _settled_down(engine: Engine) -> Turn:
    """The last of the turns that are taken until nothing happens any more."""
    while (turn := admit_once(engine)).is_more or turn.taken:
        pass
    return turn


@pytest.mark.requirement("S1.27")
def test_the_next_of_a_key_begins_when_the_run_of_a_lost_worker_is_rescued(engine: Engine) -> None:
    declare(engine, per_key=1)
    engine.worker()
    lost = engine.worker()
    [first, second] = enqueue(engine, *[limited("acme")] * 2)
    admit(engine)
    assert ids(engine.claim(lost)) == [first]
    engine.connection.execute("update holdfast.worker set lost_at = now() where id = %s", (lost,))
    engine.hold(chores.rescue(SCHEMA, luck=0.5, retention=Retention(), now=engine.now))
    admit(engine)
    assert engine.state(second) == "ready"
    assert_accounts(engine)


def test_a_claim_of_a_limited_job_is_settled_in_a_batch_with_others(engine: Engine) -> None:
    declare(engine, per_key=1)
    worker = engine.worker()
    enqueue(engine, limited("acme"), NewJob(MAIL), limited("acme"))
    admit(engine)
    claimed = engine.claim(worker)
    assert len(claimed) == 2
    assert {answer.answer for answer in settle(engine, worker, claimed)} == {"settled"}
    assert len(engine.claim(worker)) == 1
    assert_accounts(engine)


def test_a_busy_limit_becomes_direct(engine: Engine) -> None:
    declare(engine, "cpu", total=2, is_direct=False)
    worker = engine.worker()
    enqueue(engine, *[limited(("cpu", ""))] * 20)
    assert admit_once(engine, "cpu").is_direct
    while claimed := engine.claim(worker):
        settle(engine, worker, claimed)
        assert_accounts(engine)
    assert all(engine.state(job) == "succeeded" for job in range(1, 21))
