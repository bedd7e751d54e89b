"""Limited jobs, and everything that can be done to them, in any order. There is no model of who passes when:
after every step no limit holds more than it allows, and every permit that is counted is held by a job; at the
end everything has run, so nothing waited for ever while a permit was free.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.limit_use import LimitUse
from holdfast.domain.limits import LimitSpec
from holdfast.domain.retention import Retention
from holdfast.domain.ring import SEGMENTS
from holdfast.domain.transition import (
    CancelJob,
    CompleteJob,
    FailJob,
    ReleaseJob,
    RetryJob,
    SnoozeJob,
    Transition,
)
from holdfast.storage import chores, job_verbs, jobs, limit_rules, limits, operators, ring, runs, workers
from storage.gate import assert_accounts
from storage.state_machine.tables import clear
from support.engine import SCHEMA, Engine

START = datetime(2100, 1, 1, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
QUEUES = ("default", "mail")
KINDS = ("send", "resize")

LIMITS = {
    "alone": LimitSpec(per_key=1),
    "both": LimitSpec(per_key=2, total=3),
    "fair": LimitSpec(total=2, turns=True),
    "kept": LimitSpec(per_key=1, hold="job"),
    "total": LimitSpec(total=2),
}
UNKEYED = ("total",)
VERBS = ("cancel", "now", "later", "priority", "delete", "move", "retry")
_FAILURE = Failure("no")

_names = st.lists(st.sampled_from(sorted(LIMITS)), min_size=1, max_size=2, unique=True).map(sorted)
_keys = st.sampled_from(["k", "k", "k", "l"])
_transitions: st.SearchStrategy[Transition] = st.sampled_from(
    [
        CompleteJob(None, None),
        CompleteJob(None, None),
        RetryJob(MINUTE, _FAILURE),
        RetryJob(timedelta(), _FAILURE),
        SnoozeJob(MINUTE),
        ReleaseJob(),
        FailJob(_FAILURE),
        CancelJob(None),
    ]
)


@st.composite
def new_jobs(draw: st.DrawFn) -> NewJob:
    names = draw(_names)
    return NewJob(
        Policy(
            draw(st.sampled_from(KINDS)),
            queue=draw(st.sampled_from(QUEUES)),
            priority=draw(st.sampled_from([5, 5, 1])),
        ),
        limits=tuple(LimitUse(name, "" if name in UNKEYED else draw(_keys)) for name in names),
        delay=draw(st.sampled_from([timedelta(), timedelta(), MINUTE])),
        deadline_in=draw(st.sampled_from([None, None, HOUR])),
        unique_key=draw(st.sampled_from([None, None, "a", "b"])),
    )


class GateMachine(RuleBasedStateMachine):
    engine: ClassVar[Engine]

    def __init__(self) -> None:
        super().__init__()
        self.engine.now = START
        clear(self.engine.connection, START)
        for table in ("knock", "lane", "limit_state", "limit_key", "limit_rule"):
            self.engine.connection.execute(f"delete from holdfast.{table}".encode())
        self.allowed = dict(LIMITS)
        self.engine.hold(limit_rules.declare(SCHEMA, LIMITS, now=START))
        self.runs: dict[int, tuple[int, int]] = {}  # by job: worker and run
        self.workers: list[int] = []
        self.last_job = 0
        self.was_held: dict[tuple[str, str], int] = {}
        self.was_total: dict[str, int] = {}

    @property
    def now(self) -> datetime:
        assert self.engine.now is not None
        return self.engine.now

    # Callers

    @initialize(new=st.lists(new_jobs(), min_size=8, max_size=16))
    def begin(self, new: list[NewJob]) -> None:
        self.begin_worker(KINDS)
        self.enqueue(new, "existing")
        self.admit()

    @rule(
        new=st.lists(new_jobs(), min_size=2, max_size=8), on_conflict=st.sampled_from(["existing", "replace"])
    )
    def enqueue(self, new: list[NewJob], on_conflict: Any) -> None:
        answers = self.engine.hold(jobs.enqueue_many(SCHEMA, new, on_conflict=on_conflict, now=self.now))
        self.last_job = max(self.last_job, *(answer.job for answer in answers))

    # Workers

    @precondition(lambda self: len(self.workers) < 3)
    @rule(kinds=st.sampled_from([KINDS, KINDS[:1]]))
    def begin_worker(self, kinds: tuple[str, ...]) -> None:
        self.workers.append(self.engine.worker(queues=QUEUES, kinds=kinds))

    @precondition(lambda self: bool(self.workers))
    @rule(number=st.integers(0, 2), limit=st.integers(1, 5))
    def claim(self, number: int, limit: int) -> None:
        worker = self.workers[number % len(self.workers)]
        for queue in QUEUES:
            for row in self.engine.claim(worker, queue=queue, kinds=KINDS, limit=limit):
                assert row.job is not None
                self.runs[row.job] = (worker, row.run)

    @precondition(lambda self: bool(self.runs))
    @rule(data=st.data(), transition=_transitions, is_sent_again=st.booleans())
    def settle(self, data: st.DataObject, transition: Transition, *, is_sent_again: bool) -> None:
        asked = data.draw(st.lists(st.sampled_from(sorted(self.runs)), min_size=1, max_size=4, unique=True))
        self.end(asked, transition, is_sent_again=is_sent_again)

    @rule(transition=_transitions, limit=st.integers(1, 5), admits=st.booleans())
    def work(self, transition: Transition, limit: int, *, admits: bool) -> None:
        """What happens most: claimed and settled at once, one after the other and by a live worker."""
        self.beat()
        if not self.workers:
            self.begin_worker(KINDS)
        if admits:
            self.admit()
        self.claim(0, limit)
        for job in sorted(self.runs):
            self.end([job], transition)
            self.no_limit_is_passed()
            self.every_permit_is_accounted_for()

    def end(self, asked: Sequence[int], transition: Transition, *, is_sent_again: bool = False) -> None:
        """Too late for those that were taken away meanwhile."""
        by_worker: dict[int, list[runs.Settlement]] = {}
        for job in asked:
            worker, run = self.runs.pop(job)
            by_worker.setdefault(worker, []).append(runs.Settlement(worker, job, run, transition))
        for settlements in by_worker.values():
            for _ in range(1 + is_sent_again):
                self.engine.hold(runs.settle_surely(SCHEMA, settlements, now=self.now, retention=Retention()))

    def beat(self) -> None:
        for worker in list(self.workers):
            mine = [run for holder, run in self.runs.values() if holder == worker]
            beat = self.engine.one(
                runs.renew(SCHEMA, worker=worker, lease=workers.LEASE, runs=mine, now=self.now)
            )
            if not beat.is_alive:
                self.workers.remove(worker)

    @precondition(lambda self: bool(self.runs))
    @rule()
    def lose_workers(self) -> None:
        self.pass_time(31 * SECOND)
        self.engine.run(workers.mark_lost(SCHEMA, now=self.now))
        self.engine.hold(chores.rescue(SCHEMA, luck=0.5, limit=500, now=self.now, retention=Retention()))
        self.workers.clear()

    # The leader

    @rule()
    def admit(self) -> None:
        """As the leader does: every limit that has knocks, or whose state may want another look."""
        for _ in range(60):
            names = self.engine.run(limits.look_at_gate(SCHEMA, dict.fromkeys(LIMITS, 0), with_states=True))
            turns = [self.engine.hold(limits.admit(SCHEMA, name, now=self.now)) for name in names]
            if not any(turn.is_more for turn in turns):
                return
        raise AssertionError("the admitter never comes to an end")

    @rule(name=st.sampled_from(sorted(LIMITS)))
    def admit_one_turn(self, name: str) -> None:
        self.engine.hold(limits.admit(SCHEMA, name, now=self.now))

    @rule()
    def sweep(self) -> None:
        self.engine.run(limits.sweep_gate(SCHEMA, now=self.now))

    @rule(length=st.sampled_from([SECOND, 10 * SECOND, 2 * MINUTE]))
    def promote(self, length: timedelta) -> None:
        self.pass_time(length)
        self.engine.run(chores.promote(SCHEMA, now=self.now))

    @rule()
    def expire(self) -> None:
        self.engine.run(chores.expire(SCHEMA, limit=500, now=self.now, retention=Retention()))

    @rule(is_parking=st.booleans())
    def park_or_bring_back(self, *, is_parking: bool) -> None:
        if not is_parking:
            self.engine.run(ring.unpark(SCHEMA, now=self.now))
            return
        for segment in SEGMENTS:
            self.engine.run(ring.park(SCHEMA, segment=segment, is_only_limited=True, now=self.now))
        self.engine.run(ring.park_gated(SCHEMA, now=self.now))

    def pass_time(self, length: timedelta) -> None:
        self.engine.pass_time(length)

    # Operators

    @rule(
        data=st.data(),
        verb=st.sampled_from(["cancel", "now", "later", "priority", "delete", "move", "retry"]),
    )
    def steer(self, data: st.DataObject, verb: str) -> None:
        ids = st.integers(1, self.last_job + 1)
        asked = data.draw(st.lists(ids, min_size=1, max_size=3, unique=True))
        match verb:
            case "cancel":
                self.engine.hold(operators.cancel(SCHEMA, asked, now=self.now, retention=Retention()))
            case "now":
                self.engine.hold(job_verbs.reschedule(SCHEMA, asked, delay=timedelta(), now=self.now))
            case "later":
                self.engine.hold(job_verbs.reschedule(SCHEMA, asked, delay=MINUTE, now=self.now))
            case "priority":
                self.engine.hold(operators.reprioritise(SCHEMA, asked, priority=3))
            case "delete":
                self.engine.hold(job_verbs.delete(SCHEMA, asked))
            case "move":
                self.engine.hold(job_verbs.move(SCHEMA, asked, queue="mail"))
            case _:
                self.engine.hold(operators.retry_dead(SCHEMA, asked, now=self.now))

    @rule(queue=st.sampled_from(QUEUES), is_paused=st.booleans())
    def pause_or_resume(self, queue: str, *, is_paused: bool) -> None:
        if is_paused:
            self.engine.run(operators.pause(SCHEMA, queue=queue, now=self.now))
        else:
            self.engine.run(operators.resume(SCHEMA, queue=queue, now=self.now))

    @rule(name=st.sampled_from(["alone", "both", "total"]), number=st.integers(1, 3))
    def change(self, name: str, number: int) -> None:
        """Raised, or lowered: then as many as there are may go on, but no other begins."""
        old = LIMITS[name]
        spec = (
            LimitSpec(per_key=number) if old.total is None else LimitSpec(per_key=old.per_key, total=number)
        )
        self.engine.hold(limit_rules.declare(SCHEMA, {name: spec}, now=self.now))
        self.allowed[name] = spec

    # What is true after every step

    def held(self) -> dict[tuple[str, str], int]:
        """By where jobs are, not by what is counted."""
        rows = self.engine.connection.execute(_HELD).fetchall()
        return {(name, key): held for name, key, held in rows}

    @invariant()
    def every_permit_is_accounted_for(self) -> None:
        assert_accounts(self.engine)

    @invariant()
    def no_limit_is_passed(self) -> None:
        """What was held before a limit was lowered may be more, but never grows."""
        held = self.held()
        totals: dict[str, int] = {}
        for (name, _), number in held.items():
            totals[name] = totals.get(name, 0) + number
        for (name, key), number in held.items():
            allowed = self.allowed[name].per_key
            if allowed is not None:
                assert number <= max(allowed, self.was_held.get((name, key), 0)), (name, key, number)
        for name, number in totals.items():
            allowed = self.allowed[name].total
            if allowed is not None:
                assert number <= max(allowed, self.was_total.get(name, 0)), (name, number)
        self.was_held, self.was_total = held, totals

    def active(self) -> list[tuple[object, ...]]:
        return self.engine.connection.execute(
            "select id, state, limit_name, limit_key from holdfast.jobs where finished_at is null"
        ).fetchall()

    def teardown(self) -> None:
        if sys.exc_info()[0] is None:
            self.drain()

    def drain(self) -> None:
        """With one worker that takes everything and the leader's chores, every job comes to its end."""
        for queue in QUEUES:
            self.engine.run(operators.resume(SCHEMA, queue=queue, now=self.now))
        self.lose_workers()
        self.runs.clear()
        self.begin_worker(KINDS)
        for _ in range(400):
            self.engine.run(ring.unpark(SCHEMA, now=self.now))
            self.engine.run(chores.promote(SCHEMA, now=self.now))
            self.sweep()
            self.admit()
            self.no_limit_is_passed()
            self.claim(0, 500)
            self.end(list(self.runs), CompleteJob(None, None))
            self.every_permit_is_accounted_for()
            if not self.active():
                break
            self.pass_time(MINUTE)
            self.beat()
        else:
            raise AssertionError(f"stuck: {self.active()}")
        self.admit()
        assert self.held() == {}
        assert_accounts(self.engine)


_HELD = """
select u.name, u.key, count(*)
  from holdfast.job j
 cross join lateral unnest(j.limits, j.limit_keys) as u (name, key)
 where exists (select from holdfast.lease l where l.job = j.id)
    or exists (select from holdfast.ready r where r.job = j.id and r.segment < 8)
    or exists (select from holdfast.ready r where r.job = j.id and r.segment = 8 and r.limit_name > u.name)
    or exists (select from holdfast.scheduled s where s.job = j.id and u.name = any(s.holds))
    or exists (select from holdfast.waiting w where w.job = j.id and u.name = any(w.holds))
 group by 1, 2
"""


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("usual", ["glance", pytest.param("engine", marks=pytest.mark.machine)])
def test_no_limit_is_passed_and_nothing_waits_for_ever_whatever_happens(dsn: str, usual: str) -> None:
    asked = settings.get_current_profile_name()
    profile = settings.get_profile("deep" if asked == "deep" else usual)
    profile = settings(profile, max_examples=profile.max_examples // 5)  # each of its steps has many
    with Engine.on(dsn, START) as engine:
        here = type("GateMachine", (GateMachine,), {"engine": engine})
        run_state_machine_as_test(here, settings=profile)
