"""Two callers ask for one unique key: the answer to one depends on how the other's transaction ends."""

from collections.abc import Callable
from functools import partial

import psycopg
import pytest

from holdfast.domain.job import NewJob, Policy
from holdfast.errors import DuplicateJob
from holdfast.storage import jobs, operators
from storage.interleaving.prepared_jobs import blocking_ids, dead
from storage.interleaving.session import Session
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA


def through_sql(caller: Session) -> int:
    """As a trigger or another language does."""
    query = "select holdfast.enqueue('mail', unique_key => 'invoice 7')"
    [(job,)] = caller.connection.execute(query).fetchall()
    assert isinstance(job, int)
    return job


def through_python(caller: Session) -> int:
    return caller.unique("invoice 7").job


WAYS = [through_python, through_sql]


@pytest.mark.requirement("S2.11", "S0.3", "S0.6")
@pytest.mark.parametrize("way", WAYS)
def test_an_enqueue_that_waited_for_the_same_key_is_given_the_job_that_was_committed(
    sessions: Sessions, way: Callable[[Session], int]
) -> None:
    one, two = sessions.open_as_caller(), sessions.open_as_caller()
    one.begin()
    first = way(one)
    second = sessions.start(two, lambda: way(two)).waits_for(one)
    one.commit()
    assert second.answer() == first
    assert one.state(first) == "ready"


@pytest.mark.requirement("S2.11")
@pytest.mark.parametrize("way", WAYS)
def test_an_enqueue_that_waited_for_the_same_key_is_new_when_the_first_is_rolled_back(
    sessions: Sessions, way: Callable[[Session], int]
) -> None:
    one, two = sessions.open_as_caller(), sessions.open_as_caller()
    one.begin()
    first = way(one)
    second = sessions.start(two, lambda: way(two)).waits_for(one)
    one.rollback()
    assert second.answer() != first
    assert one.find(first) is None
    assert one.state(second.answer()) == "ready"


@pytest.mark.requirement("S0.3", "S0.6")
def test_of_several_waiting_enqueues_one_wins_and_the_others_get_its_job(sessions: Sessions) -> None:
    one, *others = [sessions.open_as_caller() for _ in range(4)]
    one.begin()
    one.unique("invoice 7")
    waiting = [sessions.start(other, partial(through_python, other)) for other in others]
    for enqueue in waiting:
        enqueue.waits()
    one.rollback()
    answers = [enqueue.answer() for enqueue in waiting]
    assert len(set(answers)) == 1
    assert one.state(answers[0]) == "ready"


@pytest.mark.requirement("S2.11")
def test_an_enqueue_that_must_be_the_first_is_refused_after_it_waited(sessions: Sessions) -> None:
    one, two = sessions.open_as_caller(), sessions.open_as_caller()
    one.begin()
    first = one.unique("invoice 7")
    second = sessions.start(two, lambda: two.unique("invoice 7", on_conflict="raise")).waits_for(one)
    one.commit()
    with pytest.raises(DuplicateJob) as refused:
        second.answer()
    assert refused.value.job == first.job


@pytest.mark.requirement("S2.11")
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_caller_with_a_stricter_isolation_level_fails_on_a_key_that_is_newer_than_its_snapshot(
    sessions: Sessions, isolation: str
) -> None:
    """The caller asked not to see what others commit, so it gets the serialization failure."""
    one, two = sessions.open_as_caller(), sessions.open_as_caller()
    two.begin(isolation)
    two.find(1)
    first = one.unique("invoice 7")
    with pytest.raises(psycopg.errors.SerializationFailure):
        two.unique("invoice 7")
    two.rollback()
    assert two.unique("invoice 7") == (first.job, False)


def test_a_caller_in_repeatable_read_is_given_a_job_that_it_can_see(sessions: Sessions) -> None:
    one, two = sessions.open_as_caller(), sessions.open_as_caller()
    first = one.unique("invoice 7")
    two.begin("repeatable read")
    assert two.unique("invoice 7") == (first.job, False)
    two.commit()


def test_batches_with_the_same_keys_in_another_order_wait_for_each_other_and_never_both(
    sessions: Sessions,
) -> None:
    """Keys are taken in sorted order, not in the order of the batch: otherwise this is a deadlock."""
    one, two, mark = sessions.open_as_caller(), sessions.open_as_caller(), sessions.open()

    def batch(caller: Session, *keys: str) -> list[jobs.Enqueued]:
        new = [NewJob(Policy("mail"), unique_key=key) for key in keys]
        return caller.run(jobs.enqueue(SCHEMA, new, notify=True))

    with mark.holding("insert into holdfast.unique_key (queue, key, job) values ('default', 'b', 0)"):
        first = sessions.start(one, lambda: batch(one, "a", "b")).waits_for(mark)
        second = sessions.start(two, lambda: batch(two, "b", "a")).waits_for(one)
    [a, b] = first.answer()
    assert second.answer() == [(b.job, False), (a.job, False)]


def test_a_key_left_behind_is_taken_over_by_one_of_two(sessions: Sessions) -> None:
    one, two, session = sessions.open_as_caller(), sessions.open_as_caller(), sessions.open()
    session.execute("insert into holdfast.unique_key (queue, key, job) values ('default', 'invoice 7', 999)")
    one.begin()
    first = one.unique("invoice 7")
    second = sessions.start(two, lambda: two.unique("invoice 7")).waits_for(one)
    one.commit()
    assert first.is_new
    assert second.answer() == (first.job, False)


def test_an_enqueue_that_began_before_the_key_was_taken_over_respects_the_new_holder(
    sessions: Sessions,
) -> None:
    """It saw the key of a job that is gone; by the time it gets there, the row is another one."""
    one, two, session = sessions.open_as_caller(), sessions.open_as_caller(), sessions.open()
    session.execute("insert into holdfast.unique_key (queue, key, job) values ('default', 'invoice 7', 999)")
    with session.holding("select from holdfast.unique_key for update"):
        first = sessions.start(one, lambda: one.unique("invoice 7")).waits_for(session)
        second = sessions.start(two, lambda: two.unique("invoice 7"))
        second.waits()
    answers = [first.answer(), second.answer()]
    assert sorted(answer.is_new for answer in answers) == [False, True]
    assert len({answer.job for answer in answers}) == 1


@pytest.mark.requirement("S2.11")
def test_a_dead_job_that_waited_for_its_key_stays_dead_when_a_new_one_has_it(sessions: Sessions) -> None:
    caller, operator = sessions.open_as_caller(), sessions.open()
    job = dead(operator, unique_key="invoice 7")
    caller.begin()
    new = caller.unique("invoice 7")
    resume = sessions.start(operator, lambda: operator.resume_dead(job)).waits_for(caller)
    caller.commit()
    assert resume.answer() == "duplicate"
    assert operator.state(job) == "failed"
    assert operator.key_holder("invoice 7") == new.job


@pytest.mark.requirement("S2.11")
def test_a_resume_that_asks_again_takes_no_key_out_of_order(sessions: Sessions) -> None:
    """It has the second key by then: waiting for the first, which a caller has who waits for the second,
    was a deadlock.
    """
    caller, operator, mark = sessions.open_as_caller(), sessions.open(), sessions.open()
    first, second = dead(operator, unique_key="a"), dead(operator, unique_key="b")
    talk = operators.resume_dead(SCHEMA, [first, second], now=operator.now)
    operator.begin()
    with mark.holding("select from holdfast.dead where job = %s for update", first):
        rows = operator.run(next(talk))
    assert dict(rows) == {first: "moving", second: "resumed"}
    caller.begin()
    caller.unique("a")
    enqueue = sessions.start(caller, lambda: caller.unique("b")).waits_for(operator)
    rows = operator.run(talk.send(rows))
    assert dict(rows) == {first: "moving"}
    operator.commit()
    assert enqueue.answer() == (second, False)
    caller.commit()


@pytest.mark.requirement("S2.11")
def test_a_resume_that_found_no_job_asks_again_with_keys(sessions: Sessions) -> None:
    operator, mark = sessions.open(), sessions.open()
    job = dead(operator, unique_key="a")
    talk = operators.resume_dead(SCHEMA, [job], now=operator.now)
    with mark.holding("select from holdfast.dead where job = %s for update", job):
        rows = operator.run(next(talk))
    assert dict(rows) == {job: "moving"}
    assert dict(operator.run(talk.send(rows))) == {job: "resumed"}


@pytest.mark.requirement("S2.11")
def test_an_enqueue_that_waited_for_a_resume_is_given_the_resumed_job(sessions: Sessions) -> None:
    caller, operator = sessions.open_as_caller(), sessions.open()
    job = dead(operator, unique_key="invoice 7")
    operator.begin()
    assert operator.resume_dead(job) == "resumed"
    enqueue = sessions.start(caller, lambda: caller.unique("invoice 7")).waits_for(operator)
    operator.commit()
    assert enqueue.answer() == (job, False)


@pytest.mark.requirement("S2.11")
def test_an_enqueue_that_saw_a_left_behind_key_respects_that_its_job_was_resumed_meanwhile(
    sessions: Sessions,
) -> None:
    caller, operator, mark = sessions.open_as_caller(), sessions.open(), sessions.open()
    job = dead(operator, unique_key="invoice 7")
    operator.execute(
        "insert into holdfast.unique_key (queue, key, job) values ('default', 'invoice 7', %s)", job
    )
    with blocking_ids(mark):
        enqueue = sessions.start(caller, lambda: caller.unique("invoice 7")).waits_for(mark)
        assert operator.resume_dead(job) == "resumed"
    assert enqueue.answer() == (job, False)
    assert operator.state(job) == "ready"
