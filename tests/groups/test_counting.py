"""How ends are counted and groups are closed: once, whatever is told twice, late or never."""

from datetime import timedelta

from groups.engine_groups import MAIL, THEN, close, followers, row, wake, work, write
from holdfast.domain.failure import Failure
from holdfast.domain.group import GroupCounts
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.retention import GROUPS
from holdfast.domain.transition import CompleteJob, FailJob
from holdfast.storage import chores, groups, job_verbs, operators
from holdfast.storage.idleness import is_idle
from holdfast.storage.stored_jobs import job_of
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA, Engine

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def counts(engine: Engine, group: int) -> GroupCounts:
    return groups.counts_of(row(engine, group))


def test_ends_are_added_up_once_for_a_batch_and_the_leader_is_told_of_the_last(engine: Engine) -> None:
    worker, group = engine.worker(), write(engine, [NewJob(MAIL)] * 5)
    engine.connection.execute('listen "holdfast.group"')
    for member in engine.claim(worker, limit=3):
        engine.settle(worker, member, CompleteJob("7", None))
    wake(engine)
    assert counts(engine, group) == GroupCounts(5, 3)
    assert list(engine.connection.notifies(timeout=0)) == []
    work(engine, worker)
    wake(engine)
    assert counts(engine, group) == GroupCounts(5, 5)
    assert [each.channel for each in engine.connection.notifies(timeout=1, stop_after=1)] == [
        "holdfast.group"
    ]
    assert wake(engine) == []
    assert counts(engine, group) == GroupCounts(5, 5)


def test_a_group_is_not_closed_before_its_last_member_has_ended(engine: Engine) -> None:
    worker, group = engine.worker(), write(engine, [NewJob(MAIL), NewJob(MAIL, delay=HOUR)])
    work(engine, worker)
    wake(engine)
    assert close(engine, group) == groups.Closed(awaited=1)
    assert followers(engine) == 0


def test_counts_that_are_wrong_close_nothing_too_early(engine: Engine) -> None:
    group = write(engine, [NewJob(MAIL)] * 2)
    engine.connection.execute("update holdfast.job_group set succeeded = 2")
    assert close(engine, group) == groups.Closed(awaited=0)


def test_counts_that_are_missing_keep_nothing_open(engine: Engine) -> None:
    """As when a leader of an older release has taken the wake-ups."""
    worker, group = engine.worker(), write(engine, [NewJob(MAIL)] * 3)
    work(engine, worker)
    engine.connection.execute("delete from holdfast.wakeup")
    assert engine.run(groups.due(SCHEMA, is_sweep=False)) == []
    [due] = engine.run(groups.due(SCHEMA, is_sweep=True))
    assert due.is_over
    assert close(engine, group).is_closed
    assert counts(engine, group) == GroupCounts(3, 3)


def test_a_sweep_leaves_a_group_alone_whose_first_awaited_member_has_not_ended(engine: Engine) -> None:
    worker, group = engine.worker(), write(engine, [NewJob(MAIL), NewJob(MAIL, delay=HOUR), NewJob(MAIL)])
    assert engine.run(groups.due(SCHEMA, is_sweep=True)) == []
    work(engine, worker)
    [due] = engine.run(groups.due(SCHEMA, is_sweep=True))
    assert engine.hold(groups.first_awaited(SCHEMA, due)) == 1
    engine.run(groups.wait_for(SCHEMA, group, 1))
    assert engine.run(groups.due(SCHEMA, is_sweep=True)) == []


def test_a_closed_group_is_not_closed_again(engine: Engine) -> None:
    worker, group = engine.worker(), write(engine, [NewJob(MAIL)])
    work(engine, worker)
    assert close(engine, group).is_closed
    assert close(engine, group) == groups.Closed()
    assert followers(engine) == 1


def test_of_two_leaders_that_close_a_group_at_once_one_does(dsn: str) -> None:
    with Engine.on(dsn) as engine, Sessions.on(dsn) as sessions:
        worker, group = engine.worker(), write(engine, [NewJob(MAIL)])
        work(engine, worker)
        done = GroupCounts(1, 1)
        first, second = sessions.open(), sessions.open()
        first.begin()
        assert first.hold(groups.close(SCHEMA, group, done)).is_closed
        second.begin()
        assert second.hold(groups.close(SCHEMA, group, done)) == groups.Closed(), "it is skipped"
        second.commit()
        first.commit()
        assert followers(engine) == 1
        assert engine.hold(groups.close(SCHEMA, group, done)) == groups.Closed()
        assert followers(engine) == 1


def test_a_leader_that_dies_before_its_commit_leaves_the_group_open(engine: Engine) -> None:
    worker, group = engine.worker(), write(engine, [NewJob(MAIL)])
    work(engine, worker)
    with engine.connection.transaction(force_rollback=True):
        assert engine.hold(groups.close(SCHEMA, group, GroupCounts(1, 1))).is_closed
    assert followers(engine) == 0
    assert close(engine, group).is_closed
    assert followers(engine) == 1


def test_the_end_of_what_follows_ends_the_group(engine: Engine) -> None:
    worker, group = engine.worker(kinds=("mail", "report")), write(engine, [NewJob(MAIL)])
    work(engine, worker)
    wake(engine)
    job = close(engine, group).job
    assert (row(engine, group).state, row(engine, group).then_job) == ("finishing", job)
    [claimed] = engine.claim(worker, kinds=("report",))
    assert claimed.job == job
    engine.settle(worker, claimed, CompleteJob(None, None))
    wake(engine)
    assert row(engine, group).state == "ended"


def test_a_member_that_failed_again_counts_once(engine: Engine) -> None:
    worker, group = engine.worker(), write(engine, [NewJob(MAIL), NewJob(MAIL, delay=HOUR)])
    failed = FailJob(Failure("no", "handler_error"))
    [member, *_] = [
        each.job for each in engine.run(groups.member_page(SCHEMA, group, first=0, last=2, limit=9))
    ]
    for _ in range(2):
        work(engine, worker, failed)
        wake(engine)
        assert counts(engine, group) == GroupCounts(2, failed=1)
        assert engine.hold(operators.retry_dead(SCHEMA, [member], now=engine.now)) == {member: "retried"}
    work(engine, worker, failed)
    assert engine.hold(operators.retry_dead(SCHEMA, [member], now=engine.now)) == {member: "retried"}
    work(engine, worker)
    wake(engine)  # of both ends at once
    assert counts(engine, group) == GroupCounts(2, succeeded=1)


def test_a_member_retried_before_its_failure_was_counted_counts_once_in_the_end(engine: Engine) -> None:
    worker, group = engine.worker(), write(engine, [NewJob(MAIL), NewJob(MAIL, delay=HOUR)])
    work(engine, worker, FailJob(Failure("no", "handler_error")))
    [member, _] = [
        each.job for each in engine.run(groups.member_page(SCHEMA, group, first=0, last=2, limit=9))
    ]
    engine.hold(operators.retry_dead(SCHEMA, [member], now=engine.now))
    wake(engine)
    work(engine, worker)
    wake(engine)
    assert counts(engine, group) == GroupCounts(2, succeeded=1)


def test_members_deleted_by_hand_are_gone_and_the_group_is_closed(engine: Engine) -> None:
    worker, group = engine.worker(), write(engine, [NewJob(MAIL), NewJob(MAIL, delay=HOUR)])
    work(engine, worker)
    wake(engine)
    engine.connection.execute("delete from holdfast.scheduled")
    assert close(engine, group) == groups.Closed(awaited=1), "it is lost, and fsck brings it back"
    engine.connection.execute("delete from holdfast.job where id not in (select job from holdfast.ledger)")
    assert close(engine, group).is_closed
    assert counts(engine, group) == GroupCounts(2, succeeded=1, gone=1)


def test_members_that_ended_are_kept_until_the_group_has_ended(engine: Engine) -> None:
    worker = engine.worker(kinds=("mail", "report"))
    short = Policy("mail", keep=timedelta(seconds=1))
    group = write(engine, [NewJob(short), NewJob(MAIL, delay=3 * DAY)])
    other = engine.enqueue(short)
    work(engine, worker)
    wake(engine)
    engine.pass_time(HOUR)
    pruned = engine.one(chores.prune(SCHEMA, now=engine.now))
    assert (pruned.moved, pruned.held) == (1, 1)
    assert engine.find(other) is None
    again = engine.one(chores.prune(SCHEMA, now=engine.now))
    assert (again.moved, again.held) == (0, 0), "it does not stand before others"
    engine.pass_time(2 * HOUR)
    assert engine.one(chores.prune(SCHEMA, now=engine.now)).held == 1
    [first, _] = engine.run(groups.member_page(SCHEMA, group, first=0, last=2, limit=9))
    assert first.result == "7"
    engine.connection.execute("update holdfast.job_group set ended_at = %s", [engine.now])
    engine.pass_time(2 * HOUR)
    assert engine.one(chores.prune(SCHEMA, now=engine.now)).moved == 1


def test_a_member_of_an_open_group_cannot_be_deleted(engine: Engine) -> None:
    worker, group = engine.worker(), write(engine, [NewJob(MAIL), NewJob(MAIL, delay=HOUR)])
    work(engine, worker)
    jobs = [each.job for each in engine.run(groups.member_page(SCHEMA, group, first=0, last=2, limit=9))]
    assert engine.hold(job_verbs.delete(SCHEMA, jobs, with_waiting=True)) == dict.fromkeys(jobs, "awaited")
    engine.connection.execute("update holdfast.job_group set ended_at = now()")
    assert engine.hold(job_verbs.delete(SCHEMA, jobs, with_waiting=True)) == dict.fromkeys(jobs, "deleted")


def test_a_group_is_deleted_with_its_places_once_it_was_kept_for_long_enough(engine: Engine) -> None:
    worker = engine.worker()
    group, open_group = write(engine, [NewJob(MAIL)] * 5), write(engine, [NewJob(MAIL, delay=30 * DAY)])
    engine.connection.execute("update holdfast.job_group set on_success = null")
    work(engine, worker)
    assert close(engine, group).is_closed
    assert engine.one(groups.prune_groups(SCHEMA, now=engine.now)) == 0
    engine.pass_time(GROUPS)
    assert [engine.one(groups.prune_groups(SCHEMA, limit=3, now=engine.now)) for _ in range(3)] == [3, 3, 0]
    left = engine.connection.execute("select id from holdfast.job_group").fetchall()
    places = engine.connection.execute("select distinct job_group from holdfast.group_member").fetchall()
    assert left == places == [(open_group,)]


def test_a_worker_is_not_idle_while_a_group_is_about_to_be_followed(engine: Engine) -> None:
    worker, group = engine.worker(), write(engine, [NewJob(MAIL)])

    def idle() -> bool:
        return engine.one(is_idle(SCHEMA, worker=worker, queues=["default"], kinds=["mail"], now=engine.now))

    work(engine, worker)
    assert not idle()
    wake(engine)
    assert not idle(), "the leader has not closed it yet"
    close(engine, group)
    assert idle(), "it does not know the kind that follows"


def test_what_follows_is_stored_as_it_was_asked_for(engine: Engine) -> None:
    then = NewJob(Policy("report", priority=1, tags=("a",)), '{"n": 1}', delay=HOUR)
    group, _ = engine.hold(
        groups.create(SCHEMA, groups.NewGroup(then=then), [], notify=False, now=engine.now)
    )
    [(text,)] = engine.connection.execute("select on_success::text from holdfast.job_group")
    assert job_of(text) == then
    assert close(engine, group).is_closed
    [(kind, priority)] = engine.connection.execute("select kind, priority from holdfast.job")
    assert (kind, priority) == (THEN.kind, 1)
