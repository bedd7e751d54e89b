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
from holdfast.storage import chores, flows, jobs, operators, runs
from holdfast.storage.flows import Fence, Wait, Writing
from holdfast.storage.runs import Retention
from storage.interleaving.prepared_jobs import DONE, FAIL, MINUTE, RETRY, lost
from storage.interleaving.session import Party
from storage.interleaving.stepped_sessions import Story
from support.engine import SCHEMA


def test_a_flow_that_waits_holds_nothing_but_its_rows(story: Story) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    assert waits(party, event(flow)) == ["waiting"]
    assert party.state(flow.job) == "waiting"
    assert party.connection.execute("select count(*) from holdfast.lease").fetchone() == (0,)
    [entry] = party.history(flow.job)
    assert (entry.outcome, entry.is_final) == ("snoozed", False)


def test_an_event_that_came_first_is_given_at_once_and_the_run_goes_on(story: Story) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    emits(party)
    assert wakes(party) == 0
    assert waits(party, event(flow)) == ["done"]
    assert party.state(flow.job) == "running"
    recorded = checkpoints(party, flow.job)["wait for packed"]
    assert (recorded.is_done, recorded.value) == (True, '{"by": "Ann"}')
    assert party.connection.execute("select count(*) from holdfast.event").fetchone() == (0,)


def test_an_event_wakes_every_flow_that_waits_for_it(story: Story) -> None:
    [party] = story.parties(1)
    first, second, other = (begun(party) for _ in range(3))
    assert waits(party, event(first), event(second), event(other, "shipped")) == ["waiting"] * 3
    emits(party)
    assert wakes(party) == 2
    assert [party.state(flow.job) for flow in (first, second, other)] == ["ready", "ready", "waiting"]
    for flow in (first, second):
        assert checkpoints(party, flow.job)["wait for packed"].value == '{"by": "Ann"}'
    assert party.connection.execute("select count(*) from holdfast.event").fetchone() == (0,)


def test_each_event_answers_one_wait_of_a_flow_in_the_order_of_the_waits(story: Story) -> None:
    """The same whether the flow waits already or comes later; another flow gets the event all the same."""
    [party] = story.parties(1)
    flow, other = begun(party), begun(party)

    def both(fence: Fence) -> list[Wait]:
        return [Wait(fence, name, "event", key="approved") for name in ("second eye", "first eye", "third")]

    def given() -> list[str | None]:
        known = checkpoints(party, flow.job)
        return [known[wait.name].value if known[wait.name].is_done else None for wait in both(flow)]

    assert waits(party, *both(flow), event(other, "approved")) == ["waiting"] * 4
    emits(party, "approved", '"Ann"')
    assert wakes(party) == 2
    assert given() == ['"Ann"', None, None]
    assert checkpoints(party, other.job)["wait for approved"].value == '"Ann"'
    flow = again(party, flow.job)
    emits(party, "approved", '"Bob"')
    assert waits(party, *both(flow)) == ["done", "done", "open"]
    assert given() == ['"Ann"', '"Bob"', None]
    emits(party, "approved", '"Eve"')
    emits(party, "approved", '"too many"')
    assert waits(party, *both(flow)) == ["done"] * 3
    assert given() == ['"Ann"', '"Bob"', '"Eve"']
    assert party.connection.execute("select payload from holdfast.event").fetchall() == [("too many",)]


def test_an_event_that_is_emitted_while_a_flow_goes_to_wait_wakes_it(story: Story) -> None:
    """The flow has not committed yet: the transaction that takes up the event waits for the flow's lock."""
    flow_side, emitter, leader = story.parties(3)
    flow = begun(flow_side)
    flow_side.begin()
    [answer] = looks(flow_side, event(flow))
    assert answer.status == "waiting"
    emits(emitter)
    waking = story.starts(leader, lambda: wakes(leader)).waits_for(flow_side)
    flow_side.commit()
    assert waking.answer() == 1
    assert leader.state(flow.job) == "ready"


def test_a_flow_that_goes_to_wait_while_the_event_is_taken_up_sees_it(story: Story) -> None:
    flow_side, emitter, leader = story.parties(3)
    flow = begun(flow_side)
    emits(emitter)
    leader.begin()
    leader.run(flows._WAKE_TAKE.with_params(SCHEMA, since=0, limit=10))
    waiting = story.starts(flow_side, lambda: waits(flow_side, event(flow))).waits_for(leader)
    leader.rollback()
    assert waiting.answer() == ["done"]
    assert wakes(leader) == 0


def test_an_event_in_a_transaction_that_is_still_open_is_not_missed(story: Story) -> None:
    flow_side, caller, leader = story.party(), story.caller(), story.party()
    flow = begun(flow_side)
    caller.begin("repeatable read")
    emits(caller)
    assert waits(flow_side, event(flow)) == ["waiting"]
    assert wakes(leader) == 0
    caller.commit()
    assert wakes(leader) == 1


def test_an_event_that_was_rolled_back_never_came(story: Story) -> None:
    flow_side, caller, leader = story.party(), story.caller(), story.party()
    flow = begun(flow_side)
    assert waits(flow_side, event(flow)) == ["waiting"]
    caller.begin()
    emits(caller)
    caller.rollback()
    assert wakes(leader) == 0
    assert leader.state(flow.job) == "waiting"
    cancels(leader, flow.job)


def cancels(party: Party, job: int) -> dict[int, str]:
    return party.hold(operators.cancel(SCHEMA, [job], now=party.now, retention=Retention()))


def test_a_flow_that_was_cancelled_while_its_event_is_taken_up_leaves_the_event(story: Story) -> None:
    operator, leader = story.parties(2)
    flow = begun(operator)
    assert waits(operator, event(flow)) == ["waiting"]
    emits(operator)
    operator.begin()
    operator.execute("select from holdfast.waiting for update")
    waking = story.starts(leader, lambda: wakes(leader)).waits_for(operator)
    assert cancels(operator, flow.job) == {flow.job: "cancelled"}
    operator.commit()
    assert waking.answer() == 0
    assert leader.state(flow.job) == "cancelled"
    assert leader.connection.execute("select count(*) from holdfast.event").fetchone() == (1,)


def test_a_wait_that_took_too_long_is_late_unless_the_event_comes_at_the_last_moment(story: Story) -> None:
    [party] = story.parties(1)
    early, late = begun(party), begun(party)
    assert waits(party, event(early, "a", within=HOUR), event(late, "b", within=HOUR)) == ["waiting"] * 2
    party.pass_time(HOUR)
    assert party.one(flows.time_out(SCHEMA, now=party.now)).moved == 2
    emits(party, "a")
    worker = party.worker(kinds=("flow",))
    rows = {row.job: row.run for row in party.claim(worker, kinds=("flow",))}
    retried = [Fence(worker, flow.job, rows[flow.job]) for flow in (early, late)]
    assert waits(party, event(retried[0], "a"), event(retried[1], "b")) == ["done", "late"]
    assert checkpoints(party, late.job)["wait for b"].error == '{"code": "timeout"}'


def test_a_sleep_ends_when_it_was_to_end_however_often_the_flow_runs_meanwhile(story: Story) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    assert waits(party, Wait(flow, "cool off", "sleep", HOUR)) == ["waiting"]
    assert party.state(flow.job) == "scheduled"
    party.pass_time(HOUR / 2)
    party.connection.execute("update holdfast.scheduled set run_at = %s", [party.now])
    party.promote()
    flow = again(party, flow.job)
    assert waits(party, Wait(flow, "cool off", "sleep", HOUR)) == ["waiting"]
    party.pass_time(HOUR / 2)
    party.promote()
    flow = again(party, flow.job)
    assert waits(party, Wait(flow, "cool off", "sleep", HOUR)) == ["done"]


def test_the_last_child_that_ends_wakes_its_flow(story: Story) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    assert len(calls(party, flow, 3)) == 3
    assert waits(party, children(flow)) == ["waiting"]
    worker = party.worker()
    for left, run in zip([0, 0, 1], party.claim(worker), strict=True):
        assert party.settle(worker, run, DONE).outcome == "succeeded"
        assert wakes(party) == left
    assert party.state(flow.job) == "ready"
    assert [row.value for row in checkpoints(party, flow.job).values()] == ['{"sent": true}'] * 3


@pytest.mark.parametrize("ending", [DONE, FAIL])
def test_a_child_that_ends_while_its_flow_goes_to_wait_wakes_it(story: Story, ending: object) -> None:
    flow_side, worker_side, leader = story.parties(3)
    flow = begun(flow_side)
    calls(flow_side, flow)
    worker = worker_side.worker()
    [run] = worker_side.claim(worker)
    flow_side.begin()
    [answer] = looks(flow_side, children(flow))
    assert answer.status == "waiting"
    worker_side.settle(worker, run, ending)
    waking = story.starts(leader, lambda: wakes(leader)).waits_for(flow_side)
    flow_side.commit()
    assert waking.answer() == 1


def test_a_child_whose_end_is_not_committed_yet_wakes_its_flow_later(story: Story) -> None:
    flow_side, worker_side, leader = story.parties(3)
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


def test_a_flow_that_comes_to_wait_after_its_child_has_ended_goes_on(story: Story) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    calls(party, flow)
    worker = party.worker()
    party.settle(worker, party.claim(worker)[0], DONE)
    assert waits(party, children(flow)) == ["done"]
    assert wakes(party) == 0
    assert party.state(flow.job) == "running"


def test_an_eager_wait_ends_with_the_first_failure(story: Story) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    calls(party, flow, 2)
    assert waits(party, children(flow, is_eager=True)) == ["waiting"]
    worker = party.worker()
    first, second = party.claim(worker)
    party.settle(worker, first, RETRY)
    assert wakes(party) == 0
    party.settle(worker, second, FAIL)
    assert wakes(party) == 1
    [failed] = [row for row in checkpoints(party, flow.job).values() if row.is_done]
    assert '"state": "failed"' in (failed.error or "")


@pytest.mark.parametrize("place", ["ready", "scheduled", "lease", "waiting"])
def test_a_child_that_is_cancelled_or_expires_wakes_its_flow_from_wherever_it_was(
    story: Story, place: str
) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    new = NewJob(Policy("mail"), delay=HOUR if place == "scheduled" else None, deadline_in=2 * HOUR)
    [child] = party.run(flows.call(SCHEMA, flow, [new], ["mail"], bunch="mail", now=party.now))
    assert waits(party, children(flow, "mail")) == ["waiting"]
    worker = party.worker()
    runs_of_it = party.claim(worker) if place in ("lease", "waiting") else []
    if place == "waiting":
        assert waits(party, event(Fence(worker, child, runs_of_it[0].run), "never")) == ["waiting"]
    if place == "lease":
        assert cancels(party, child) == {child: "requested"}
        party.settle(worker, runs_of_it[0], RETRY)
    elif place == "ready":
        assert cancels(party, child) == {child: "cancelled"}
    else:
        party.pass_time(3 * HOUR)
        assert party.one(chores.expire(SCHEMA, now=party.now, retention=Retention())).moved == 1
    assert party.state(child) in ("cancelled", "expired")
    assert wakes(party) == 1


def test_children_of_a_flow_that_is_cancelled_are_told_to_the_flow_waker(story: Story) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    ids = calls(party, flow, 2)
    assert waits(party, children(flow)) == ["waiting"]
    assert cancels(party, flow.job) == {flow.job: "cancelled"}
    _, woken = party.hold(flows.wake(SCHEMA, now=party.now))
    assert sorted(woken.orphans) == ids


def test_a_flow_waits_for_a_job_that_it_has_not_begun(story: Story) -> None:
    [party] = story.parties(1)
    other = party.enqueue()
    worker = party.worker()
    [run] = party.claim(worker)
    flow = begun(party)
    assert party.run(flows.adopt(SCHEMA, flow, other, "other", now=party.now)) == [(flow.run, None)]
    assert waits(party, children(flow, "other")) == ["waiting"]
    party.settle(worker, run, DONE)
    assert wakes(party) == 1
    assert checkpoints(party, flow.job)["other"].value == '{"sent": true}'


def test_the_sweep_finds_a_wait_that_is_over_although_nobody_said_so(story: Story) -> None:
    [party] = story.parties(1)
    by_event, by_child = begun(party), begun(party)
    assert waits(party, event(by_event)) == ["waiting"]
    calls(party, by_child)
    assert waits(party, children(by_child)) == ["waiting"]
    emits(party)
    worker = party.worker()
    party.settle(worker, party.claim(worker)[0], DONE)
    party.execute("delete from holdfast.wakeup")
    assert wakes(party) == 0
    swept = party.one(flows.sweep(SCHEMA))
    assert (swept.missing, swept.child, swept.key) == (2, None, None)
    assert wakes(party) == 2


def test_a_job_that_a_flow_has_gone_to_wait_for_is_not_pruned_before_it_was_taken_up(story: Story) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    new = NewJob(Policy("mail", keep=timedelta()))
    party.run(flows.call(SCHEMA, flow, [new], ["mail"], bunch="mail", now=party.now))
    assert waits(party, children(flow, "mail")) == ["waiting"]
    worker = party.worker()
    party.settle(worker, party.claim(worker)[0], DONE)
    assert party.one(chores.prune(SCHEMA, now=party.now)).moved == 0
    assert wakes(party) == 1
    assert checkpoints(party, flow.job)["mail"].value == '{"sent": true}'
    assert party.one(chores.prune(SCHEMA, now=party.now)).moved == 1


@pytest.mark.requirement("S1.27", "S1.28", "S1.29")
def test_a_run_that_was_taken_away_can_neither_checkpoint_nor_wait_nor_call(story: Story) -> None:
    flow_side, leader = story.parties(2)
    flow = begun(flow_side)
    lost(leader, flow.worker)
    assert [row.job for row in leader.rescue()] == [flow.job]
    assert flow_side.run(flows.checkpoint(SCHEMA, [Writing(flow, "a", "step", "1")])) == []
    assert waits(flow_side, event(flow)) == ["lost"]
    assert calls(flow_side, flow) == []
    assert flow_side.run(flows.adopt(SCHEMA, flow, flow.job, "other")) == []
    assert checkpoints(leader, flow.job) == {}
    assert leader.state(flow.job) == "scheduled"


def test_a_rescue_steps_over_a_run_that_writes_a_checkpoint(story: Story) -> None:
    flow_side, leader = story.parties(2)
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


def test_a_checkpoint_that_is_sent_again_stays_as_it_was(story: Story) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    for value in ("1", "2"):
        writing = Writing(flow, "a", "step", value)
        assert party.run(flows.checkpoint(SCHEMA, [writing], now=party.now)) == [flow.run]
    assert checkpoints(party, flow.job)["a"].value == "1"


def test_a_flow_that_is_to_be_cancelled_or_is_past_its_deadline_does_not_begin_to_wait(story: Story) -> None:
    [party] = story.parties(1)
    cancelled, expired = begun(party), begun(party, deadline_in=MINUTE)
    assert cancels(party, cancelled.job) == {cancelled.job: "requested"}
    party.pass_time(MINUTE)
    assert waits(party, event(cancelled), event(expired)) == ["stop", "stop"]
    assert [party.state(flow.job) for flow in (cancelled, expired)] == ["running", "running"]


def test_events_that_nobody_took_are_deleted_after_their_time(story: Story) -> None:
    [party] = story.parties(1)
    emits(party)
    party.pass_time(flows.KEEP_EVENTS)
    assert party.one(flows.prune_events(SCHEMA, now=party.now)) == 1


def test_ten_thousand_children_are_begun_and_taken_up_by_bulk_statements(story: Story) -> None:
    [party] = story.parties(1)
    flow = begun(party)
    for part in range(10):
        new = [NewJob(Policy("mail")) for _ in range(jobs.CHUNK)]
        names = [f"mail[{part * jobs.CHUNK + number}]" for number in range(jobs.CHUNK)]
        assert (
            len(party.run(flows.call(SCHEMA, flow, new, names, bunch="mails", now=party.now))) == jobs.CHUNK
        )
    assert waits(party, children(flow)) == ["waiting"]
    worker = party.worker()
    woken = 0
    while rows := party.claim(worker, limit=500):
        party.run(
            runs.settle(
                SCHEMA,
                [runs.Settlement(worker, row.job, row.run, DONE) for row in rows if row.job],
                retention=Retention(),
            )
        )
        while True:
            ids, did = party.hold(flows.wake(SCHEMA, now=party.now))
            woken += did.woken
            if not ids:
                break
    assert woken == 1
    assert party.state(flow.job) == "ready"
    assert all(row.is_done for row in checkpoints(party, flow.job).values())
