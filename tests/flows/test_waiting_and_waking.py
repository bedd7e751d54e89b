"""Events race waits, and children race their flows, in both orders, stopped between any two statements."""

from datetime import timedelta

import pytest

from flows.flow_statements import (
    HOUR,
    again,
    begun,
    calls,
    checkpoints,
    children,
    emits,
    event,
    looks,
    waits,
    wakes,
)
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.retention import EVENTS, Retention
from holdfast.storage import chores, flows, jobs, operators, runs
from holdfast.storage.flows import Fence, Wait, Writing
from storage.interleaving.prepared_jobs import DONE, FAIL, MINUTE, RETRY, lost
from storage.interleaving.session import Session
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA


def test_a_flow_that_waits_holds_nothing_but_its_rows(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    assert waits(session, event(flow)) == ["waiting"]
    assert session.state(flow.job) == "waiting"
    assert session.connection.execute("select count(*) from holdfast.lease").fetchone() == (0,)
    [entry] = session.history(flow.job)
    assert (entry.outcome, entry.is_final) == ("snoozed", False)


def test_an_event_that_came_first_is_given_at_once_and_the_run_goes_on(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    emits(session)
    assert wakes(session) == 0
    assert waits(session, event(flow)) == ["done"]
    assert session.state(flow.job) == "running"
    recorded = checkpoints(session, flow.job)["wait for packed"]
    assert (recorded.is_done, recorded.value) == (True, '{"by": "Ann"}')
    assert session.connection.execute("select count(*) from holdfast.event").fetchone() == (0,)


def test_an_event_wakes_every_flow_that_waits_for_it(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    first, second, other = (begun(session) for _ in range(3))
    assert waits(session, event(first), event(second), event(other, "shipped")) == ["waiting"] * 3
    emits(session)
    assert wakes(session) == 2
    assert [session.state(flow.job) for flow in (first, second, other)] == ["ready", "ready", "waiting"]
    for flow in (first, second):
        assert checkpoints(session, flow.job)["wait for packed"].value == '{"by": "Ann"}'
    assert session.connection.execute("select count(*) from holdfast.event").fetchone() == (0,)


def test_each_event_answers_one_wait_of_a_flow_in_the_order_of_the_waits(sessions: Sessions) -> None:
    """The same whether the flow waits already or comes later; another flow gets the event all the same."""
    [session] = sessions.open_many(1)
    flow, other = begun(session), begun(session)

    def both(fence: Fence) -> list[Wait]:
        return [Wait(fence, name, "event", key="approved") for name in ("second eye", "first eye", "third")]

    def given() -> list[str | None]:
        known = checkpoints(session, flow.job)
        return [known[wait.name].value if known[wait.name].is_done else None for wait in both(flow)]

    assert waits(session, *both(flow), event(other, "approved")) == ["waiting"] * 4
    emits(session, "approved", '"Ann"')
    assert wakes(session) == 2
    assert given() == ['"Ann"', None, None]
    assert checkpoints(session, other.job)["wait for approved"].value == '"Ann"'
    flow = again(session, flow.job)
    emits(session, "approved", '"Bob"')
    assert waits(session, *both(flow)) == ["done", "done", "open"]
    assert given() == ['"Ann"', '"Bob"', None]
    emits(session, "approved", '"Eve"')
    emits(session, "approved", '"too many"')
    assert waits(session, *both(flow)) == ["done"] * 3
    assert given() == ['"Ann"', '"Bob"', '"Eve"']
    assert session.connection.execute("select payload from holdfast.event").fetchall() == [("too many",)]


def test_an_event_that_is_emitted_while_a_flow_goes_to_wait_wakes_it(sessions: Sessions) -> None:
    """The flow has not committed yet: the transaction that takes up the event waits for the flow's lock."""
    flow_side, emitter, leader = sessions.open_many(3)
    flow = begun(flow_side)
    flow_side.begin()
    [answer] = looks(flow_side, event(flow))
    assert answer.status == "waiting"
    emits(emitter)
    waking = sessions.start(leader, lambda: wakes(leader)).waits_for(flow_side)
    flow_side.commit()
    assert waking.answer() == 1
    assert leader.state(flow.job) == "ready"


def test_a_flow_that_goes_to_wait_while_the_event_is_taken_up_sees_it(sessions: Sessions) -> None:
    flow_side, emitter, leader = sessions.open_many(3)
    flow = begun(flow_side)
    emits(emitter)
    leader.begin()
    leader.run(flows._WAKE_TAKE.with_params(SCHEMA, since=0, limit=10))
    waiting = sessions.start(flow_side, lambda: waits(flow_side, event(flow))).waits_for(leader)
    leader.rollback()
    assert waiting.answer() == ["done"]
    assert wakes(leader) == 0


def test_an_event_in_a_transaction_that_is_still_open_is_not_missed(sessions: Sessions) -> None:
    flow_side, caller, leader = sessions.open(), sessions.open_as_caller(), sessions.open()
    flow = begun(flow_side)
    caller.begin("repeatable read")
    emits(caller)
    assert waits(flow_side, event(flow)) == ["waiting"]
    assert wakes(leader) == 0
    caller.commit()
    assert wakes(leader) == 1


def test_an_event_that_was_rolled_back_never_came(sessions: Sessions) -> None:
    flow_side, caller, leader = sessions.open(), sessions.open_as_caller(), sessions.open()
    flow = begun(flow_side)
    assert waits(flow_side, event(flow)) == ["waiting"]
    caller.begin()
    emits(caller)
    caller.rollback()
    assert wakes(leader) == 0
    assert leader.state(flow.job) == "waiting"
    cancels(leader, flow.job)


def cancels(session: Session, job: int) -> dict[int, str]:
    return session.hold(operators.cancel(SCHEMA, [job], now=session.now, retention=Retention()))


def test_a_flow_that_was_cancelled_while_its_event_is_taken_up_leaves_the_event(sessions: Sessions) -> None:
    operator, leader = sessions.open_many(2)
    flow = begun(operator)
    assert waits(operator, event(flow)) == ["waiting"]
    emits(operator)
    operator.begin()
    operator.execute("select from holdfast.waiting for update")
    waking = sessions.start(leader, lambda: wakes(leader)).waits_for(operator)
    assert cancels(operator, flow.job) == {flow.job: "cancelled"}
    operator.commit()
    assert waking.answer() == 0
    assert leader.state(flow.job) == "cancelled"
    assert leader.connection.execute("select count(*) from holdfast.event").fetchone() == (1,)


def test_a_wait_that_took_too_long_is_late_unless_the_event_comes_at_the_last_moment(
    sessions: Sessions,
) -> None:
    [session] = sessions.open_many(1)
    early, late = begun(session), begun(session)
    assert waits(session, event(early, "a", within=HOUR), event(late, "b", within=HOUR)) == ["waiting"] * 2
    session.pass_time(HOUR)
    assert session.one(flows.time_out(SCHEMA, now=session.now)).moved == 2
    emits(session, "a")
    worker = session.worker(kinds=("flow",))
    rows = {row.job: row.run for row in session.claim(worker, kinds=("flow",))}
    retried = [Fence(worker, flow.job, rows[flow.job]) for flow in (early, late)]
    assert waits(session, event(retried[0], "a"), event(retried[1], "b")) == ["done", "late"]
    assert checkpoints(session, late.job)["wait for b"].error == '{"code": "timeout"}'


def test_a_sleep_ends_when_it_was_to_end_however_often_the_flow_runs_meanwhile(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    assert waits(session, Wait(flow, "cool off", "sleep", HOUR)) == ["waiting"]
    assert session.state(flow.job) == "scheduled"
    session.pass_time(HOUR / 2)
    session.connection.execute("update holdfast.scheduled set run_at = %s", [session.now])
    session.promote()
    flow = again(session, flow.job)
    assert waits(session, Wait(flow, "cool off", "sleep", HOUR)) == ["waiting"]
    session.pass_time(HOUR / 2)
    session.promote()
    flow = again(session, flow.job)
    assert waits(session, Wait(flow, "cool off", "sleep", HOUR)) == ["done"]


def test_the_last_child_that_ends_wakes_its_flow(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    assert len(calls(session, flow, 3)) == 3
    assert waits(session, children(flow)) == ["waiting"]
    worker = session.worker()
    for left, run in zip([0, 0, 1], session.claim(worker), strict=True):
        assert session.settle(worker, run, DONE).outcome == "succeeded"
        assert wakes(session) == left
    assert session.state(flow.job) == "ready"
    assert [row.value for row in checkpoints(session, flow.job).values()] == ['{"sent": true}'] * 3


@pytest.mark.parametrize("ending", [DONE, FAIL])
def test_a_child_that_ends_while_its_flow_goes_to_wait_wakes_it(sessions: Sessions, ending: object) -> None:
    flow_side, worker_side, leader = sessions.open_many(3)
    flow = begun(flow_side)
    calls(flow_side, flow)
    worker = worker_side.worker()
    [run] = worker_side.claim(worker)
    flow_side.begin()
    [answer] = looks(flow_side, children(flow))
    assert answer.status == "waiting"
    worker_side.settle(worker, run, ending)
    waking = sessions.start(leader, lambda: wakes(leader)).waits_for(flow_side)
    flow_side.commit()
    assert waking.answer() == 1


def test_a_child_whose_end_is_not_committed_yet_wakes_its_flow_later(sessions: Sessions) -> None:
    flow_side, worker_side, leader = sessions.open_many(3)
    flow = begun(flow_side)
    calls(flow_side, flow)
    worker = worker_side.worker()
    [run] = worker_side.claim(worker)
    worker_side.begin()
    worker_side.settle(worker, run, DONE)
    assert waits(flow_side, children(flow)) == ["waiting"]
    assert wakes(leader) == 0
    worker_side.commit()
    assert wakes(leader) == 1


def test_a_flow_that_comes_to_wait_after_its_child_has_ended_goes_on(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    calls(session, flow)
    worker = session.worker()
    session.settle(worker, session.claim(worker)[0], DONE)
    assert waits(session, children(flow)) == ["done"]
    assert wakes(session) == 0
    assert session.state(flow.job) == "running"


def test_an_eager_wait_ends_with_the_first_failure(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    calls(session, flow, 2)
    assert waits(session, children(flow, is_eager=True)) == ["waiting"]
    worker = session.worker()
    first, second = session.claim(worker)
    session.settle(worker, first, RETRY)
    assert wakes(session) == 0
    session.settle(worker, second, FAIL)
    assert wakes(session) == 1
    [failed] = [row for row in checkpoints(session, flow.job).values() if row.is_done]
    assert '"state": "failed"' in (failed.error or "")


@pytest.mark.parametrize("place", ["ready", "scheduled", "lease", "waiting"])
def test_a_child_that_is_cancelled_or_expires_wakes_its_flow_from_wherever_it_was(
    sessions: Sessions, place: str
) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    new = NewJob(Policy("mail"), delay=HOUR if place == "scheduled" else None, deadline_in=2 * HOUR)
    [child] = session.run(flows.call(SCHEMA, flow, [new], ["mail"], bunch="mail", now=session.now))
    assert waits(session, children(flow, "mail")) == ["waiting"]
    worker = session.worker()
    runs_of_it = session.claim(worker) if place in ("lease", "waiting") else []
    if place == "waiting":
        assert waits(session, event(Fence(worker, child, runs_of_it[0].run), "never")) == ["waiting"]
    if place == "lease":
        assert cancels(session, child) == {child: "requested"}
        session.settle(worker, runs_of_it[0], RETRY)
    elif place == "ready":
        assert cancels(session, child) == {child: "cancelled"}
    else:
        session.pass_time(3 * HOUR)
        assert session.one(chores.expire(SCHEMA, now=session.now, retention=Retention())).moved == 1
    assert session.state(child) in ("cancelled", "expired")
    assert wakes(session) == 1


def test_children_of_a_flow_that_is_cancelled_are_told_to_the_flow_waker(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    ids = calls(session, flow, 2)
    assert waits(session, children(flow)) == ["waiting"]
    assert cancels(session, flow.job) == {flow.job: "cancelled"}
    _, woken = session.hold(flows.wake(SCHEMA, now=session.now))
    assert sorted(woken.orphans) == ids


def test_a_flow_waits_for_a_job_that_it_has_not_begun(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    other = session.enqueue()
    worker = session.worker()
    [run] = session.claim(worker)
    flow = begun(session)
    assert session.run(flows.adopt(SCHEMA, flow, other, "other", now=session.now)) == [(flow.run, None)]
    assert waits(session, children(flow, "other")) == ["waiting"]
    session.settle(worker, run, DONE)
    assert wakes(session) == 1
    assert checkpoints(session, flow.job)["other"].value == '{"sent": true}'


def test_the_sweep_finds_a_wait_that_ended_without_a_wake_up(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    by_event, by_child = begun(session), begun(session)
    assert waits(session, event(by_event)) == ["waiting"]
    calls(session, by_child)
    assert waits(session, children(by_child)) == ["waiting"]
    emits(session)
    worker = session.worker()
    session.settle(worker, session.claim(worker)[0], DONE)
    session.execute("delete from holdfast.wakeup")
    assert wakes(session) == 0
    swept = session.one(flows.sweep(SCHEMA))
    assert (swept.missing, swept.child, swept.key) == (2, None, None)
    assert wakes(session) == 2


def test_a_job_that_a_flow_has_gone_to_wait_for_is_not_pruned_before_it_was_taken_up(
    sessions: Sessions,
) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    new = NewJob(Policy("mail", keep=timedelta()))
    session.run(flows.call(SCHEMA, flow, [new], ["mail"], bunch="mail", now=session.now))
    assert waits(session, children(flow, "mail")) == ["waiting"]
    worker = session.worker()
    session.settle(worker, session.claim(worker)[0], DONE)
    assert session.one(chores.prune(SCHEMA, now=session.now)).moved == 0
    assert wakes(session) == 1
    assert checkpoints(session, flow.job)["mail"].value == '{"sent": true}'
    assert session.one(chores.prune(SCHEMA, now=session.now)).moved == 1


@pytest.mark.requirement("S1.27", "S1.28", "S1.29")
def test_a_run_that_was_taken_away_can_neither_checkpoint_nor_wait_nor_call(sessions: Sessions) -> None:
    flow_side, leader = sessions.open_many(2)
    flow = begun(flow_side)
    lost(leader, flow.worker)
    assert [row.job for row in leader.rescue()] == [flow.job]
    assert flow_side.run(flows.checkpoint(SCHEMA, [Writing(flow, "a", "step", "1")])) == []
    assert waits(flow_side, event(flow)) == ["lost"]
    assert calls(flow_side, flow) == []
    assert flow_side.run(flows.adopt(SCHEMA, flow, flow.job, "other")) == []
    assert checkpoints(leader, flow.job) == {}
    assert leader.state(flow.job) == "scheduled"


def test_a_rescue_steps_over_a_run_that_writes_a_checkpoint(sessions: Sessions) -> None:
    flow_side, leader = sessions.open_many(2)
    flow = begun(flow_side)
    lost(leader, flow.worker)
    flow_side.begin()
    assert flow_side.run(flows.checkpoint(SCHEMA, [Writing(flow, "a", "step", "1")])) == [flow.run]
    assert leader.rescue() == []
    flow_side.commit()
    assert [row.job for row in leader.rescue()] == [flow.job]
    leader.pass_time(MINUTE)
    leader.promote()
    assert checkpoints(leader, flow.job)["a"].value == "1"


def test_a_checkpoint_that_is_sent_again_stays_as_it_was(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    for value in ("1", "2"):
        writing = Writing(flow, "a", "step", value)
        assert session.run(flows.checkpoint(SCHEMA, [writing], now=session.now)) == [flow.run]
    assert checkpoints(session, flow.job)["a"].value == "1"


def test_a_flow_that_is_to_be_cancelled_or_is_past_its_deadline_does_not_begin_to_wait(
    sessions: Sessions,
) -> None:
    [session] = sessions.open_many(1)
    cancelled, expired = begun(session), begun(session, deadline_in=MINUTE)
    assert cancels(session, cancelled.job) == {cancelled.job: "requested"}
    session.pass_time(MINUTE)
    assert waits(session, event(cancelled), event(expired)) == ["stop", "stop"]
    assert [session.state(flow.job) for flow in (cancelled, expired)] == ["running", "running"]


def test_events_that_no_flow_took_are_deleted_after_their_time(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    emits(session)
    session.pass_time(EVENTS)
    assert session.one(flows.prune_events(SCHEMA, now=session.now)) == 1


def test_ten_thousand_children_are_begun_and_taken_up_by_bulk_statements(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    for part in range(10):
        new = [NewJob(Policy("mail")) for _ in range(jobs.CHUNK)]
        names = [f"mail[{part * jobs.CHUNK + number}]" for number in range(jobs.CHUNK)]
        assert (
            len(session.run(flows.call(SCHEMA, flow, new, names, bunch="mails", now=session.now)))
            == jobs.CHUNK
        )
    assert waits(session, children(flow)) == ["waiting"]
    worker = session.worker()
    woken = 0
    while rows := session.claim(worker, limit=500):
        session.run(
            runs.settle(
                SCHEMA,
                [runs.Settlement(worker, row.job, row.run, DONE) for row in rows if row.job],
                retention=Retention(),
            )
        )
        while True:
            ids, did = session.hold(flows.wake(SCHEMA, now=session.now))
            woken += did.woken
            if not ids:
                break
    assert woken == 1
    assert session.state(flow.job) == "ready"
    assert all(row.is_done for row in checkpoints(session, flow.job).values())
