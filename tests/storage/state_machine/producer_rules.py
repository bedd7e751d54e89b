"""Rules of producers: enqueue in Python and in SQL, one job or a batch."""

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from holdfast.domain.job import NewJob, Policy
from holdfast.domain.uniqueness import OnConflict
from holdfast.errors import DuplicateJob
from holdfast.storage import jobs
from storage.state_machine.core import Core, one_of
from storage.state_machine.inputs import Asked, new_jobs, policies, sql_jobs
from support.engine import SCHEMA

_ENQUEUE_IN_SQL = """
select holdfast.enqueue(
  %(kind)s::text, %(args)s::jsonb, queue => %(queue)s::text, priority => %(priority)s::int,
  run_at => %(run_at)s,
  unique_key => %(unique_key)s::text, max_attempts => %(max_attempts)s::int, deadline_at => %(deadline_at)s,
  timeout => %(timeout)s, keep => %(keep)s)
"""


def ended_keys(machine: Core) -> list[tuple[str, str]]:
    return [job.key for job in machine.model.jobs.values() if job.key and not job.is_active]


class Producing(Core):
    @rule(
        asked=st.lists(new_jobs, min_size=1, max_size=5),
        on_conflict=st.sampled_from(["existing", "raise", "replace"]),
    )
    def enqueue(self, asked: list[Asked], on_conflict: OnConflict) -> None:
        new = [each.at(self.now) for each in asked]
        conversation = jobs.enqueue_many(SCHEMA, new, on_conflict=on_conflict, now=self.now)
        if on_conflict == "raise" and self.has_duplicates(new):
            with pytest.raises(DuplicateJob):
                self.engine.hold(conversation)
            return
        answers = self.engine.hold(conversation)
        for job, answer in zip(new, answers, strict=True):
            self.answered(job, answer, is_replacing=on_conflict == "replace")
        ids = [answer.job for answer in answers if answer.is_new]
        assert ids == sorted(ids), "ids do not follow the order given"

    @precondition(lambda self: bool(ended_keys(self)))
    @rule(key=one_of(ended_keys), policy=policies)
    def enqueue_again(self, key: tuple[str, str], policy: Policy) -> None:
        """A key is free again once its job has ended, and the job that had it before may ask for it again."""
        queue, name = key
        new = NewJob(replace(policy, queue=queue), unique_key=name)
        [answer] = self.engine.hold(jobs.enqueue_many(SCHEMA, [new], now=self.now))
        self.answered(new, answer)

    @rule(asked=sql_jobs)
    def enqueue_in_sql(self, asked: Asked) -> None:
        new = self.model.counted(asked.at(self.now))
        policy = new.policy
        values = {
            "kind": policy.kind,
            "args": new.args,
            "queue": policy.queue,
            "priority": policy.priority,
            "run_at": new.run_at,
            "unique_key": new.unique_key,
            "max_attempts": policy.max_attempts,
            "deadline_at": new.deadline_at,
            "timeout": policy.timeout,
            "keep": policy.keep,
        }
        [[id_]] = self.engine.connection.execute(_ENQUEUE_IN_SQL, values).fetchall()
        self.answered(new, jobs.Enqueued(id_, id_ not in self.model.jobs))

    def has_duplicates(self, new: list[NewJob]) -> bool:
        keys = [(job.policy.queue, job.unique_key) for job in new if job.unique_key]
        return len(set(keys)) < len(keys) or any(map(self.model.holder, keys))

    def answered(self, new: NewJob, answer: jobs.Enqueued, *, is_replacing: bool = False) -> None:
        holder = self.model.holder((new.policy.queue, new.unique_key)) if new.unique_key else None
        assert answer.is_new == (holder is None)
        if holder is None:
            self.model.enqueue(answer.job, new)
            return
        assert answer.job == holder.id
        if is_replacing:
            self.model.replace(holder, new)
