"""A permit is handed on, given back or asked for while another transaction is half way through the same."""

import pytest

from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.storage import runs
from holdfast.storage.completions import RunToComplete, complete_one
from holdfast.storage.limit_rules import close
from holdfast.storage.limits import admit_direct
from holdfast.storage.shared_limits import look_at_limit
from storage.gate import (
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
from storage.interleaving.session import Session
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA

LEASE = "select from holdfast.lease for update"


def running(session: Session) -> tuple[int, list[runs.ClaimRow]]:
    """One job of the key acme runs, of which one may."""
    declare(session, per_key=1)
    worker = session.worker()
    enqueue(session, limited("acme"))
    admit(session)
    return worker, session.claim(worker)


def assert_runs_next(session: Session, worker: int, job: int) -> None:
    admit(session)
    claimed = session.claim(worker)
    assert ids(claimed) == [job]
    settle(session, worker, claimed)
    admit(session)
    assert_accounts(session)
    assert lanes(session) == {}


def test_who_came_after_a_settle_had_looked_is_not_forgotten(sessions: Sessions) -> None:
    """The settle does not see whoever came, and the admitter does not see that the permit comes back: the
    mark on the lane is what both of them see.
    """
    holder, worker_side, leader = sessions.open_many(3)
    worker, claimed = running(worker_side)
    with holder.holding(LEASE):
        ending = sessions.start(worker_side, lambda: settle(worker_side, worker, claimed)).waits_for(holder)
        [second] = enqueue(leader, limited("acme"))
        assert admit(leader) == 0
    [answer] = ending.answer()
    assert isinstance(answer, runs.SettledAndHandedOn)
    assert answer.is_knocking
    assert_runs_next(leader, worker, second)


def test_an_admitter_does_not_wait_for_a_settle_that_takes_a_lane_along(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, claimed = running(worker_side)
    worker_side.begin()
    settle(worker_side, worker, claimed)
    [second] = enqueue(leader, limited("acme"))
    turn = admit_once(leader)
    assert (turn.admitted, turn.again_in) == (0, 0.0)
    worker_side.commit()
    assert lanes(leader) == {}
    assert_runs_next(leader, worker, second)


@pytest.mark.parametrize("key", [None, "acme"])
def test_a_limit_that_is_closed_after_the_leader_has_looked_lets_nobody_pass(
    sessions: Sessions, key: str | None
) -> None:
    operator, leader = sessions.open_many(2)
    declare(leader, per_key=1)
    leader.worker()
    enqueue(leader, limited("acme"))
    leader.begin()
    assert leader.one(look_at_limit(SCHEMA, "stripe", now=leader.now)).is_direct
    operator.run(close(SCHEMA, "stripe", key=key, now=operator.now))
    assert leader.one(admit_direct(SCHEMA, "stripe", now=leader.now)).passed == 0
    leader.commit()
    assert admit(leader) == 0
    operator.run(close(SCHEMA, "stripe", key=key, opens=True, now=operator.now))
    assert admit(leader) == 1


def test_a_settle_that_is_rolled_back_keeps_its_permit(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, claimed = running(worker_side)
    worker_side.begin()
    settle(worker_side, worker, claimed)
    [second] = enqueue(leader, limited("acme"))
    admit_once(leader)
    worker_side.rollback()
    assert admit(leader) == 0
    assert_accounts(leader)
    settle(worker_side, worker, claimed)
    assert_runs_next(leader, worker, second)


def test_an_heir_whose_settle_is_rolled_back_waits_again(sessions: Sessions) -> None:
    worker_side, leader = sessions.open_many(2)
    worker, claimed = running(worker_side)
    [second] = enqueue(leader, limited("acme"))
    admit(leader)
    worker_side.begin()
    settle(worker_side, worker, claimed)
    assert admit(leader) == 0
    worker_side.rollback()
    assert leader.state(second) == "gated"
    assert leader.claim(worker) == []
    assert_accounts(leader)
    settle(worker_side, worker, claimed)
    assert_runs_next(leader, worker, second)


@pytest.mark.parametrize("does_commit", [True, False])
def test_who_is_locked_while_a_permit_comes_back_gets_it_later(sessions: Sessions, does_commit: bool) -> None:
    """An operator moves the only one who waits: neither the settle nor the admitter can take it."""
    operator, worker_side, leader = sessions.open_many(3)
    worker, claimed = running(worker_side)
    [second] = enqueue(leader, limited("acme"))
    admit(leader)
    operator.begin()
    operator.reprioritise(second, priority=1)
    settle(worker_side, worker, claimed)
    turn = admit_once(leader)
    assert (turn.admitted, turn.again_in) == (0, 0.0)
    if does_commit:
        operator.commit()
    else:
        operator.rollback()
    assert_runs_next(leader, worker, second)


def test_of_two_admitters_the_second_counts_what_the_first_has_admitted(sessions: Sessions) -> None:
    first, second = sessions.open_many(2)
    declare(first, per_key=1)
    worker = first.worker()
    enqueue(first, limited("acme"))
    first.begin()
    admit_once(first)
    enqueue(second, limited("acme"))
    late = sessions.start(second, lambda: admit_once(second)).waits_for(first)
    first.commit()
    assert late.answer().admitted == 0
    assert len(first.claim(worker)) == 1
    assert_accounts(first)


def test_two_settles_hand_on_to_two_heirs(sessions: Sessions) -> None:
    one, other, leader = sessions.open_many(3)
    declare(leader, per_key=2)
    worker = leader.worker()
    enqueue(leader, *[limited("acme")] * 5)
    admit(leader)
    claimed = leader.claim(worker)
    one.begin()
    settle(one, worker, claimed[:1])
    settle(other, worker, claimed[1:])
    assert ids(leader.claim(worker)) == [4]
    one.commit()
    assert ids(leader.claim(worker)) == [3]
    assert_accounts(leader)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_callers_of_any_isolation_level_enqueue_without_a_look(sessions: Sessions, isolation: str) -> None:
    """Ids are committed out of order, from old snapshots, and some are rolled back: all others run."""
    caller, leader = sessions.open_as_caller(), sessions.open()
    declare(leader, per_key=1)
    worker = leader.worker()
    caller.begin(isolation)
    caller.execute("select count(*) from holdfast.lane")
    early = enqueue(caller, limited("acme"), limited("other"))
    late = enqueue(leader, limited("acme"), limited("other"))
    admit(leader)
    claimed = leader.claim(worker)
    assert set(ids(claimed)) == set(late)
    enqueue(caller, limited("acme"))
    caller.execute("savepoint dropped")
    enqueue(caller, limited("acme"))
    caller.execute("rollback to savepoint dropped")
    caller.commit()
    admit(leader)
    done = set(ids(claimed))
    settle(leader, worker, claimed)
    for _ in range(5):
        admit(leader)
        claimed = leader.claim(worker)
        assert len(claimed) <= 2
        done |= set(ids(claimed))
        if claimed:
            settle(leader, worker, claimed)
    assert done == {*early, *late, 5}
    assert lanes(leader) == {}
    assert_accounts(leader)


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_a_handlers_own_transaction_of_any_isolation_level_gives_its_permit_back(
    sessions: Sessions, isolation: str
) -> None:
    """Its snapshot is old: what others took since then must not fail the handler's work."""
    handler, leader = sessions.open_as_caller(), sessions.open()
    worker, [claimed] = running(leader)
    [second, third] = enqueue(leader, *[limited("acme")] * 2)
    admit(leader)
    handler.begin(isolation)
    handler.execute("select count(*) from holdfast.lane")
    leader.cancel(second)
    assert claimed.job is not None
    run = RunToComplete(
        worker, claimed.job, claimed.run, CompleteJob(None, None), is_plain=False, is_limited=True
    )
    assert handler.run(complete_one(SCHEMA, run, retention=Retention(), now=handler.now)) == ["settled"]
    handler.commit()
    assert_accounts(leader)
    assert_runs_next(leader, worker, third)
