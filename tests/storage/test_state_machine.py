"""Everything the engine can be asked, in any order, beside a model of what should happen.

Each step is done in Postgres by the real statements and in the model; the answers must agree, and after every
step the tables must hold what the model says. At the end everything is drained: nothing may be stuck.

`pytest tests/storage/test_state_machine.py --hypothesis-profile=deep` takes its time.
"""

import sys

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from holdfast.domain.outcome import AttemptOutcome
from holdfast.domain.ring import SEGMENTS
from holdfast.domain.transition import CompleteJob
from holdfast.storage import chores, runs
from holdfast.storage.runs import Settlement
from storage.state_machine.core import DAY, MINUTE, SECOND, START, live
from storage.state_machine.inputs import ALL_KINDS, ALL_QUEUES, Asked, new_jobs, outcomes
from storage.state_machine.invariants import check
from storage.state_machine.leader_rules import Leading
from storage.state_machine.operator_rules import Operating
from storage.state_machine.producer_rules import Producing
from storage.state_machine.tables import Tables, prepare
from storage.state_machine.worker_rules import Working
from support.engine import SCHEMA, Engine


class EngineMachine(Producing, Working, Leading, Operating):
    @initialize(
        asked=st.lists(new_jobs, min_size=4, max_size=8), kinds=st.sampled_from([ALL_KINDS, ALL_KINDS[:1]])
    )
    def begin(self, asked: list[Asked], kinds: tuple[str, ...]) -> None:
        self.begin_worker(ALL_QUEUES, kinds)
        self.arrive(asked, 2)

    @rule(asked=st.lists(new_jobs, min_size=2, max_size=6), limit=st.integers(1, 3))
    def arrive(self, asked: list[Asked], limit: int) -> None:
        """New jobs, and some are begun: most of what can happen happens to runs."""
        self.enqueue(asked, "existing")
        for queue in ALL_QUEUES:
            self.begin_runs(queue, limit)

    @rule(came_to=st.lists(outcomes, min_size=3, max_size=3), limit=st.integers(1, 3))
    def go_on(self, came_to: list[AttemptOutcome], limit: int) -> None:
        """What was to come is due, and worked on."""
        self.pass_time(2 * MINUTE)
        self.promote(500, goes_on=True)
        self.work(came_to, limit, is_sent_again=False)

    @invariant()
    def the_tables_hold_what_the_model_says(self) -> None:
        check(Tables.read(self.engine.connection), self.model, self.claims)

    @invariant()
    def questions_are_answered_as_by_the_model(self) -> None:
        assert self.engine.one(chores.next_due(SCHEMA, now=self.now)) == self.model.next_due()
        look = self.engine.one(runs.look(SCHEMA, queues=ALL_QUEUES, kinds=ALL_KINDS, now=self.now))
        assert look.queues == [queue for queue in ALL_QUEUES if self.model.has_work(queue, ALL_KINDS)]

    def teardown(self) -> None:
        if sys.exc_info()[0] is None:  # a step that failed is to be told, not what follows from it
            self.drain()

    def drain(self) -> None:
        """With time, a leader and one worker that knows everything, every job comes to its end."""
        for queue in ALL_QUEUES:
            self.resume(queue)
        for segment in SEGMENTS:
            self.reopen(segment)
        self.lose_workers(31 * SECOND, 500, 0.5, rescues=True)
        self.begin_worker(ALL_QUEUES, ALL_KINDS)
        worker = max(self.model.workers)
        for _ in range(3):
            self.unpark()
            self.expire(500)
            self.promote(500, goes_on=False)
            for queue in ALL_QUEUES:
                self.claim(worker, queue, ALL_KINDS, 1_000, is_reply_lost=False)
            self.send([Settlement(*claim, CompleteJob(None, None)) for claim in live(self)])
            self.pass_time(2 * DAY)
            self.beat(worker)
        self.the_tables_hold_what_the_model_says()
        assert not [job for job in self.model.jobs.values() if job.is_active], "a job is stuck"
        self.pass_time(31 * DAY)
        self.prune(500)
        left = Tables.read(self.engine.connection)
        assert not any((left.jobs, left.places, left.entries, left.dead, left.keys, left.saved))


@pytest.mark.timeout(7_200)
@pytest.mark.requirement(
    "S0.24", "S1.29", "S2.11", "S2.12", "S2.13", "S3.26", "S3.30", "S4.6", "S4.13", "S4.20", "S4.21"
)
@pytest.mark.parametrize("usual", ["glance", pytest.param("engine", marks=pytest.mark.machine)])
def test_every_job_is_in_one_place_and_every_run_is_accounted_for_whatever_happens(
    dsn: str, usual: str
) -> None:
    asked = settings.get_current_profile_name()
    profile = settings.get_profile("deep" if asked == "deep" else usual)
    with Engine.on(dsn, START) as engine, psycopg.connect(dsn, autocommit=True) as rival:
        prepare(engine.connection)
        here = type("EngineMachine", (EngineMachine,), {"engine": engine, "rival": rival})
        run_state_machine_as_test(here, settings=profile)
