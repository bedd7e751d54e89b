"""Runs: claimed, renewed by their worker's heartbeat, settled in batches behind a fence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Literal, NamedTuple, assert_never

from holdfast.domain.json_text import flaw
from holdfast.domain.light_value import LightValue
from holdfast.domain.retention import Retention
from holdfast.domain.ring import SEGMENTS, segments_without
from holdfast.domain.states import RunOutcome
from holdfast.domain.steering import Activity, AskedActivity
from holdfast.domain.transition import (
    SUCCESS,
    CancelJob,
    CompleteJob,
    FailJob,
    ReleaseJob,
    RetryJob,
    SnoozeJob,
    Transition,
)
from holdfast.errors import InvalidInput
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.arrays import number_array, text_array
from holdfast.storage.statements import bunched, statement
from holdfast.storage.workers import lease_length

TIMEOUT = timedelta(hours=1)


class ClaimRow(LightValue, frozen=True):
    """A claimed job, or with no job only what the ring looks like."""

    ring_version: int
    closed: int | None
    job: int | None
    run: int
    attempt: int
    kind: str
    args: str
    priority: int
    max_attempts: int
    backoff: str | None
    started_at: datetime
    lasting: float
    created_at: datetime
    deadline_at: datetime | None
    tags: list[str] | None
    state: str | None
    origin: str | None = None
    picked: int | None = None
    is_plain: bool | None = None
    waited: float | None = None
    is_limited: bool | None = None
    newer: int | None = None
    """The job that has taken over its unique key."""

    @property
    def timeout_at(self) -> datetime:
        """The run may last for so many seconds: until then."""
        return self.started_at.astimezone(UTC) + timedelta(seconds=self.lasting)


class Look(NamedTuple):
    """What an idle poll learns: the ring, and the queues that have something to do."""

    ring_version: int
    closed: int | None
    queues: list[str]


class Gathered(NamedTuple):
    """How many jobs of a kind are ready in a queue, and for how many seconds the oldest of them has been."""

    ring_version: int
    closed: int | None
    kind: str
    number: int
    oldest: float


class Heartbeat(NamedTuple):
    """What a worker learns when it renews. Runs are numbers of `run`; unknown ones come with their jobs. The
    last ones are what operators ask of it; `asked_slots` is a JSON object.
    """

    is_alive: bool
    missing: list[int]
    to_cancel: list[int]
    unknown_jobs: list[int]
    unknown_runs: list[int]
    is_any_untold: bool = False
    asked_activity: AskedActivity | None = None
    asked_grace: timedelta | None = None
    asked_by: str | None = None
    asked_reason: str | None = None
    asked_slots: str | None = None


Answer = Literal["settled", "already", "moving", "lost"]


class Settled(NamedTuple):
    """What became of a settle: taken, taken before, or refused since the run was taken away; `moving` when
    the run ended while the settle waited for it, so that only a new statement can tell how.
    """

    job: int
    run: int
    answer: Answer
    outcome: RunOutcome | None


class SettledAndHandedOn(Settled):
    """With what became of the permits of limited runs in the same statement. `woken`: queues that have got
    jobs by it; `is_knocking`: the leader has to look at a gate.
    """

    woken: Sequence[str] = ()
    is_knocking: bool = False


class Settlement(LightValue, frozen=True):
    """One run and what is to happen to its job."""

    worker: int
    job: int
    run: int
    transition: Transition

    @property
    def is_spared(self) -> bool:
        """Whether its failure is not one that the breakers of its limits count."""
        return False


@dataclass(frozen=True, slots=True)
class Saving:
    """What one run has to say on its way, as JSON text; None leaves what was there."""

    worker: int
    job: int
    run: int
    state: str | None = None
    progress: str | None = None

    def __post_init__(self) -> None:
        for name, text in (("state", self.state), ("progress", self.progress)):
            if text is not None and (problem := flaw(text)):
                raise InvalidInput(f"the {name} of job {self.job} must be JSON text: {problem}")


_new_tuple = tuple.__new__


def _completed(  # noqa: PLR0917  # called with the columns of a row
    jobs: list[int],
    runs: list[int],
    answer: Answer,
    outcome: RunOutcome | None,
    woken: Sequence[str] = (),
    is_knocking: bool = False,  # noqa: FBT001, FBT002  # a column
) -> list[Settled]:
    # As Settled(…) does, in a third of its time: they come in thousands.
    settled = [_new_tuple(Settled, (job, run, answer, outcome)) for job, run in zip(jobs, runs, strict=True)]
    if woken or is_knocking:
        settled[0] = _and_handed_on(settled[0], woken, is_knocking)
    return settled


def _settled(  # noqa: PLR0917  # called with the columns of a row
    job: int,
    run: int,
    answer: Answer,
    outcome: RunOutcome | None,
    woken: Sequence[str],
    is_knocking: bool,  # noqa: FBT001  # a column
) -> Settled:
    settled = Settled(job, run, answer, outcome)
    return _and_handed_on(settled, woken, is_knocking) if woken or is_knocking else settled


def _and_handed_on(settled: Settled, woken: Sequence[str], is_knocking: bool) -> Settled:  # noqa: FBT001
    more = SettledAndHandedOn(*settled)
    more.woken, more.is_knocking = woken, is_knocking
    return more


_CLAIM = statement("claim", ClaimRow)
_LOOK = statement("look", Look, is_repeatable=True)
_TAKEN = (
    "taken_{0} as (delete from {{schema}}.ready_{0}"
    " where ctid = any(array(select place from picked where segment = {0})))"
)
_CLAIM_FROM = {
    closed: _CLAIM.filled(
        taken=", ".join(map(_TAKEN.format, segments_without(closed))),
        segments=", ".join(map(str, segments_without(closed))),
    )
    for closed in (None, *SEGMENTS)
}
_LOOK_AT = {
    closed: _LOOK.filled(segments=", ".join(map(str, segments_without(closed))))
    for closed in (None, *SEGMENTS)
}
_GATHERED = statement("gathered", Gathered, is_repeatable=True)
_GATHERED_IN = {
    closed: _GATHERED.filled(segments=", ".join(map(str, segments_without(closed))))
    for closed in (None, *SEGMENTS)
}
_RENEW = statement("renew", Heartbeat, is_repeatable=True)
_SETTLE_AND_NOTICE = statement("settle", _settled, is_repeatable=True)
_SETTLE = statement("settle", _settled, is_repeatable=True, without=("noticed",))
_COMPLETE_LIMITED = bunched("complete", _completed, is_repeatable=True)
_COMPLETE = bunched(
    "complete",
    _completed,
    is_repeatable=True,
    without=("limits_of_plain", "limits_of_ended", "limits_of_job", "handed_on", "handed_on_answer"),
)
_SAVE = statement("save", int, is_repeatable=True)
_POSTPONE = statement("lease_postpone", int, is_repeatable=True)


def claim(
    schema: Schema,
    *,
    worker: int,
    queue: str,
    kinds: Sequence[str],
    limit: int,
    closed: int | None = None,
    after: tuple[int, int] | None = None,
    is_quick: bool = False,
    now: datetime | None = None,
) -> Statement[ClaimRow]:
    """Take up to `limit` jobs. `closed` is the segment that the last answer said to leave out; `after` are
    priority and id of a job: only those behind it. `is_quick`: without jobs whose rows were ever locked.
    """
    after_priority, after_job = after or (None, None)
    return _CLAIM_FROM.get(closed, _CLAIM_FROM[None]).with_params(
        schema,
        worker=worker,
        queue=queue,
        kinds=text_array(kinds),
        limit=limit,
        after_priority=after_priority,
        after_job=after_job,
        is_quick=is_quick,
        timeout=TIMEOUT,
        now=now,
    )


def look(
    schema: Schema,
    *,
    queues: Sequence[str],
    kinds: Sequence[str],
    closed: int | None = None,
    now: datetime | None = None,
) -> Statement[Look]:
    """Ask which queues have something to do."""
    return _LOOK_AT.get(closed, _LOOK_AT[None]).with_params(
        schema, queues=list(queues), kinds=list(kinds), now=now
    )


def gathered(
    schema: Schema,
    *,
    queue: str,
    most: Mapping[str, int],
    window: int | None = None,
    closed: int | None = None,
    now: datetime | None = None,
) -> Statement[Gathered]:
    """Ask how many jobs of each of these kinds are ready, up to the number beside it; with a window, only
    among so many jobs at the front of the queue.
    """
    return _GATHERED_IN.get(closed, _GATHERED_IN[None]).with_params(
        schema, queue=queue, kinds=list(most), most=list(most.values()), window=window, now=now
    )


def renew(
    schema: Schema,
    *,
    worker: int,
    lease: timedelta,
    runs: Sequence[int],
    activity: Activity | None = None,
    queue_slots: Sequence[int] | None = None,
    now: datetime | None = None,
) -> Statement[Heartbeat]:
    """Beat once for all runs, and compare them with the database's. Says what the worker does, and how many
    slots it has for each of its queues; None: as it said before.
    """
    return _RENEW.with_params(
        schema,
        worker=worker,
        lease=lease_length(lease),
        runs=list(runs),
        activity=activity,
        queue_slots=None if queue_slots is None else list(queue_slots),
        now=now,
    )


def settle(
    schema: Schema,
    settlements: Sequence[Settlement],
    *,
    retention: Retention,
    is_noticed: bool = False,
    is_limited: bool = True,
    from_front: bool = True,
    now: datetime | None = None,
) -> Statement[Settled]:
    """End runs as decided; of a run that is named twice the first counts. Sent again after a lost reply, it
    answers `already`. `is_noticed`: no attempt here calls their hooks, so that notices are left for these.
    `is_limited`: some of the jobs may have limits. `from_front`: look for those who get their permits from
    the front of the gate, not only behind the jobs that have ended.
    """
    settlements = _in_order(settlements)
    runs = {
        "workers": number_array([settlement.worker for settlement in settlements]),
        "jobs": number_array([settlement.job for settlement in settlements]),
        "runs": number_array([settlement.run for settlement in settlements]),
        "keep_succeeded": retention.succeeded,
        "now": now,
    }
    outcomes, delays, errors, results, flags, fingerprints = _columns(
        [settlement.transition for settlement in settlements]
    )
    said = {"results": text_array(results), "flags": text_array(flags)}
    if not any(outcomes):
        if is_limited:
            return _COMPLETE_LIMITED.with_params(schema, **runs, **said, front=from_front)
        return _COMPLETE.with_params(schema, **runs, **said)
    return (_SETTLE_AND_NOTICE if is_noticed else _SETTLE).with_params(
        schema,
        **runs,
        **said,
        outcomes=text_array(outcomes),
        delays=list(delays) if any(delay is not None for delay in delays) else None,
        errors=text_array(errors),
        fingerprints=text_array(fingerprints),
        keep_dead=retention.dead,
        keep_other=retention.other,
        front=from_front,
        spared=_spared(settlements),
    )


def _spared(settlements: Sequence[Settlement]) -> str | None:
    runs = [settlement.run for settlement in settlements if settlement.is_spared]
    return number_array(runs) if runs else None


def settle_surely(
    schema: Schema,
    settlements: Sequence[Settlement],
    *,
    retention: Retention,
    is_noticed: bool = False,
    is_limited: bool = True,
    from_front: bool = True,
    now: datetime | None = None,
) -> Conversation[list[Settled]]:
    """Settle, and ask again about runs that ended while we waited for them: an earlier sending of
    the same settle, or a rescue. The second answer is never `moving`, since by then they have ended.
    """

    def asked(left: Sequence[Settlement]) -> Statement[Settled]:
        return settle(
            schema,
            left,
            retention=retention,
            is_noticed=is_noticed,
            is_limited=is_limited,
            from_front=from_front,
            now=now,
        )

    answers = yield from ask(asked(settlements))
    moving = {answer.run for answer in answers if answer.answer == "moving"}
    if not moving:
        return answers
    left = [settlement for settlement in settlements if settlement.run in moving]
    again = yield from ask(asked(left))
    return [answer for answer in answers if answer.run not in moving] + again


def save(schema: Schema, savings: Sequence[Saving], *, now: datetime | None = None) -> Statement[int]:
    """Keep states and progress; answers the runs that still hold their lease."""
    return _SAVE.with_params(
        schema,
        workers=[saving.worker for saving in savings],
        jobs=[saving.job for saving in savings],
        runs=[saving.run for saving in savings],
        states=[saving.state for saving in savings],
        progresses=[saving.progress for saving in savings],
        now=now,
    )


def postpone(
    schema: Schema, *, worker: int, job: int, run: int, lasting: timedelta, now: datetime | None = None
) -> Statement[int]:
    """Tell the leader that a run may last for so long from now on; answers it if it still holds its lease."""
    return _POSTPONE.with_params(schema, worker=worker, job=job, run=run, lasting=lasting, now=now)


def _in_order(settlements: Sequence[Settlement]) -> list[Settlement]:
    """Each run once, ascending. One that is there twice would be written twice, and fail all the others."""
    if len({settlement.run for settlement in settlements}) < len(settlements):
        settlements = list({settlement.run: settlement for settlement in reversed(settlements)}.values())
    return sorted(settlements, key=attrgetter("run"))


_Text = str | None
_Row = tuple[_Text, timedelta | None, _Text, _Text, _Text, _Text]
_Texts = Sequence[_Text]


def _columns(
    transitions: Sequence[Transition],
) -> tuple[_Texts, Sequence[timedelta | None], _Texts, _Texts, _Texts, _Texts]:
    if all(transition is SUCCESS or transition == SUCCESS for transition in transitions):
        return (), (), (), (), (), ()
    outcomes, delays, errors, results, flags, fingerprints = zip(*map(_row, transitions), strict=True)
    return outcomes, delays, errors, results, flags, fingerprints


def _row(transition: Transition) -> _Row:
    """Outcome (None: success, which is what most of them are), delay, error, result, flag, fingerprint."""
    match transition:
        case CompleteJob(result, flag):
            return (None, None, None, result, flag, None)
        case RetryJob(delay, failure):
            return (transition.outcome, delay, failure.to_json(), None, None, failure.fingerprint)
        case SnoozeJob(delay, failure):
            return (transition.outcome, delay, failure.to_json() if failure else None, None, None, None)
        case ReleaseJob():
            return (transition.outcome, None, None, None, None, None)
        case FailJob(failure):
            return (transition.outcome, None, failure.to_json(), None, None, failure.fingerprint)
        case CancelJob(failure):
            return (transition.outcome, None, failure.to_json() if failure else None, None, None, None)
        case _:
            assert_never(transition)
