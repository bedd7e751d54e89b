"""Inputs of the state machine: jobs, outcomes and transitions, few enough of each that they meet."""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import strategies as st

from holdfast.domain.backoff import DEFAULT, Fixed
from holdfast.domain.failure import Failure
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.outcome import (
    AttemptOutcome,
    Cancelled,
    Failed,
    Released,
    Snoozed,
    Succeeded,
    Unreadable,
)
from holdfast.domain.retry import exponential
from holdfast.domain.transition import (
    CancelJob,
    CompleteJob,
    FailJob,
    ReleaseJob,
    RetryJob,
    SnoozeJob,
    Transition,
)

ALL_QUEUES = ("default", "mail")
ALL_KINDS = ("send", "resize")
STATES = ('{"step": 1}', '{"step": 2}')

NOW, SOON, LATER, LONG = timedelta(), timedelta(seconds=5), timedelta(minutes=2), timedelta(hours=3)
FAILURE = Failure("no route to host")

policies = st.builds(
    Policy,
    kind=st.sampled_from(ALL_KINDS),
    queue=st.sampled_from(ALL_QUEUES),
    priority=st.sampled_from([5, 0, 9]),
    max_attempts=st.integers(1, 3),
    backoff=st.sampled_from([DEFAULT, exponential("1m", cap="1h", jitter=0), Fixed(timedelta())]),
    timeout=st.sampled_from([None, SOON]),
    keep=st.sampled_from([None, timedelta(), timedelta(hours=1)]),
    on_lost=st.sampled_from(["retry", "fail"]),
    tags=st.sampled_from([(), ('a "quoted", {odd} \\ tag', "b")]),
)
_keys = st.sampled_from([None, None, "a", "a", "b"])
_args = st.integers(0, 9).map(lambda n: json.dumps({"n": n}))
_deadlines = st.sampled_from([None, None, SOON, LONG])


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for, in full once the time is known. Both lengths count from then."""

    policy: Policy
    args: str
    start: timedelta
    deadline: timedelta | None
    key: str | None
    is_timed: bool

    def at(self, now: datetime) -> NewJob:
        end = None if self.deadline is None else self.start + self.deadline
        if not self.is_timed:
            return NewJob(self.policy, self.args, delay=self.start, deadline_in=end, unique_key=self.key)
        return NewJob(
            self.policy,
            self.args,
            run_at=now + self.start,
            deadline_at=None if end is None else now + end,
            unique_key=self.key,
        )


new_jobs = st.builds(
    Asked, policies, _args, st.sampled_from([NOW, NOW, SOON, LATER]), _deadlines, _keys, st.booleans()
)
# The SQL function takes fewer options, and its clock is the real one: all of our times are later than that.
_plain_policies = policies.map(lambda policy: replace(policy, backoff=DEFAULT, on_lost="retry", tags=()))
sql_jobs = st.one_of(
    st.builds(Asked, _plain_policies, _args, st.just(NOW), _deadlines, _keys, st.just(value=False)),
    st.builds(Asked, _plain_policies, _args, st.just(SOON), _deadlines, _keys, st.just(value=True)),
)

# Some more than once: what goes on has more before it than what ends.
outcomes: st.SearchStrategy[AttemptOutcome] = st.sampled_from(
    [
        Succeeded(),
        Succeeded('{"sent": 1}'),
        Failed(FAILURE),
        Failed(FAILURE),
        Failed(FAILURE, SOON),
        Failed(FAILURE, NOW),
        Failed(FAILURE, is_retryable=False),
        Unreadable(FAILURE, NOW),
        Unreadable(FAILURE, LONG),
        Snoozed(SOON),
        Snoozed(NOW),
        Released(),
        Cancelled(),
    ]
)
transitions: st.SearchStrategy[Transition] = st.sampled_from(
    [
        CompleteJob(None, None),
        RetryJob(timedelta(), FAILURE),
        SnoozeJob(SOON),
        ReleaseJob(),
        FailJob(FAILURE),
        CancelJob(None),
    ]
)
