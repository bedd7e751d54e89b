"""Rules of operators: cancel, reprioritise, pause, resume, retry and delete."""

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from holdfast.domain.retention import Retention
from holdfast.storage import job_verbs, operators
from storage.state_machine.core import SECOND, Core, all_jobs, dead_jobs, live, running_jobs, some_of
from storage.state_machine.inputs import ALL_QUEUES
from support.engine import SCHEMA

_queues = st.sampled_from(ALL_QUEUES)


class Operating(Core):
    @precondition(lambda self: bool(live(self)))
    @rule(asked=some_of(running_jobs))
    def cancel_running(self, asked: list[int]) -> None:
        self.cancel(asked)

    @rule(asked=some_of(all_jobs))
    def cancel(self, asked: list[int]) -> None:
        answers = self.engine.hold(operators.cancel(SCHEMA, asked, now=self.now, retention=Retention()))
        assert answers == {job: self.model.cancel(job) for job in asked}

    @rule(asked=some_of(all_jobs), priority=st.sampled_from([0, 5, 9]))
    def reprioritise(self, asked: list[int], priority: int) -> None:
        answers = self.engine.hold(operators.reprioritise(SCHEMA, asked, priority=priority))
        assert answers == {job: self.model.reprioritise(job, priority) for job in asked}

    @rule(queue=_queues, length=st.sampled_from([None, 10 * SECOND]))
    def pause_or_resume(self, queue: str, length: timedelta | None) -> None:
        if queue in self.model.paused:
            self.resume(queue)
            return
        paused = self.engine.one(operators.pause(SCHEMA, queue=queue, length=length, now=self.now))
        self.model.paused[queue] = self.now + length if length else None
        assert paused.until == self.model.paused[queue]

    def resume(self, queue: str) -> None:
        was_paused = queue in self.model.paused
        self.model.paused.pop(queue, None)
        assert self.engine.run(operators.resume(SCHEMA, queue=queue, now=self.now)) == [queue] * was_paused

    @precondition(lambda self: bool(dead_jobs(self)))
    @rule(asked=some_of(dead_jobs) | some_of(all_jobs), from_start=st.booleans())
    def take_up_again(self, asked: list[int], *, from_start: bool) -> None:
        verb = operators.retry_dead if from_start else operators.resume_dead
        answers = self.engine.hold(verb(SCHEMA, asked, now=self.now))
        assert answers == {job: self.model.take_up_again(job, from_start=from_start) for job in sorted(asked)}

    @precondition(lambda self: bool(dead_jobs(self)))
    @rule(asked=some_of(dead_jobs))
    def delete(self, asked: list[int]) -> None:
        answers = self.engine.hold(job_verbs.delete(SCHEMA, asked, with_waiting=False))
        assert answers == dict.fromkeys(asked, "deleted")
        assert self.model.purge(asked) == len(answers)
