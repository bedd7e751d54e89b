"""Facts about work, emitted once and read by the log and by the app's own `readers`."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from holdfast.domain.failure import Failure
from holdfast.domain.light_value import LightValue
from holdfast.domain.states import RunOutcome


class AttemptFact(LightValue, frozen=True):
    """Which attempt a fact is about."""

    job: int
    run: int
    kind: str
    queue: str
    attempt: int
    max_attempts: int
    step: str | None = None


class AttemptStarted(LightValue, frozen=True):
    of: AttemptFact


class AttemptEnded(LightValue, frozen=True):
    """An attempt was settled. `outcome` is that of the ledger: succeeded, retried, failed, … `waiting` is
    what a flow starts to wait for, such as `for packed:42`; `next_step` the step that a machine moves to at
    once; `flag` why the result of a success was dropped. `error` is what the handler raised, unless its
    arguments hold secrets, which it may quote; `tags` are told of failures. `waited` is how long the job had
    been ready when this run began.
    """

    of: AttemptFact
    outcome: RunOutcome
    took: timedelta
    failure: Failure | None = None
    delay: timedelta | None = None
    waiting: str | None = None
    next_step: str | None = None
    flag: str | None = None
    error: BaseException | None = None
    tags: tuple[str, ...] = ()
    waited: timedelta | None = None


@dataclass(frozen=True, slots=True)
class LeaseWasLost:
    """An attempt was taken away: it can no longer settle. `doing` says what it was about to do."""

    of: AttemptFact
    doing: str


@dataclass(frozen=True, slots=True)
class StillRunning:
    """An attempt was told to stop and runs on. Said once; its job and its slot stay taken until it ends."""

    of: AttemptFact
    told: str
    is_thread: bool


@dataclass(frozen=True, slots=True)
class LoopBlocked:
    """The event loop did not run for a while. `by` is the attempt that blocks it, if it is one of ours."""

    lasting: timedelta
    by: AttemptFact | None
    running: tuple[str, ...]
    place: str | None


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    worker: int
    queues: tuple[str, ...]
    kinds: int
    slots: int


@dataclass(frozen=True, slots=True)
class WorkerStopped:
    worker: int
    released: int


@dataclass(frozen=True, slots=True)
class RunsLeftUnsettled:
    """A worker has stopped while the database did not answer: nothing could be written of the runs of these
    jobs. The leader rescues them when the worker's lease has ended.
    """

    worker: int
    jobs: tuple[int, ...]
    lease: timedelta


@dataclass(frozen=True, slots=True)
class WorkerQuietened:
    """An operator asked this worker to claim nothing, or to go on. `running` jobs go on in any case."""

    worker: int
    is_quiet: bool
    running: int
    by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class SlotsChanged:
    """An operator asked this worker to run more or fewer jobs of a queue at once."""

    worker: int
    queue: str
    slots: int
    before: int


@dataclass(frozen=True, slots=True)
class StopAsked:
    """An operator asked this worker to stop. `is_now`: without waiting for its `running` jobs."""

    worker: int
    is_now: bool
    running: int
    by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class WorkerWasLost:
    """This worker did not renew in time: its attempts were aborted, and it registers again."""

    worker: int
    aborted: int


@dataclass(frozen=True, slots=True)
class LeadershipChanged:
    is_leader: bool
    term: int | None


@dataclass(frozen=True, slots=True)
class ChoreDid:
    """A chore moved rows. A turn that moved none is not reported."""

    chore: str
    count: int


@dataclass(frozen=True, slots=True)
class ChoreFailed:
    """Emitted each time. The log warns once for each reason, again when it changes, and tells its end."""

    chore: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTakenAway:
    """The leader took a run away from a worker that is lost or did not enforce its timeout."""

    job: int
    run: int
    kind: str
    queue: str
    attempt: int
    max_attempts: int
    worker: int
    host: str | None
    pid: int | None
    outcome: RunOutcome
    failure: Failure


@dataclass(frozen=True, slots=True)
class JobExpired:
    """A job waited past its deadline, and was ended by the leader."""

    job: int
    kind: str
    queue: str
    attempt: int


@dataclass(frozen=True, slots=True)
class JobsExpired:
    """So many more of one kind in one queue in the same pass."""

    kind: str
    queue: str
    count: int


@dataclass(frozen=True, slots=True)
class HooksUntold:
    """Ends whose hooks no worker has called for ten minutes: no live worker knows the kind."""

    kind: str
    outcome: RunOutcome
    count: int
    job: int


@dataclass(frozen=True, slots=True)
class NobodyServes:
    """Jobs wait, and no live worker can take them: those of a queue, of a kind, of a kind in a queue, or of a
    schedule. `near` ends the sentence with a similar name, if there is one: `; did you mean "mail"?`.
    `is_quiet`: workers that could take them are quiet, by an operator's wish.
    """

    schedule: str | None
    queue: str | None
    kind: str | None
    near: str = ""
    is_quiet: bool = False


@dataclass(frozen=True, slots=True)
class HookFailed:
    hook: str
    kind: str
    job: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class ScheduleFailed:
    """Something is wrong with a schedule or with one of its scopes; the others go on. Said once."""

    schedule: str
    scope: str | None
    error: str


@dataclass(frozen=True, slots=True)
class ScopesAwaited:
    """The source of a schedule's scopes has not answered for so long. It is waited for, up to a minute."""

    schedule: str
    waited: timedelta


@dataclass(frozen=True, slots=True)
class PlansMissed:
    """Plans that a policy dropped without a fire: missed, or too late."""

    schedule: str
    scopes: int
    plans: int
    reason: str


Event = (
    AttemptStarted
    | AttemptEnded
    | LeaseWasLost
    | StillRunning
    | LoopBlocked
    | WorkerStarted
    | WorkerStopped
    | RunsLeftUnsettled
    | WorkerQuietened
    | SlotsChanged
    | StopAsked
    | WorkerWasLost
    | LeadershipChanged
    | ChoreDid
    | ChoreFailed
    | RunTakenAway
    | JobExpired
    | JobsExpired
    | HooksUntold
    | NobodyServes
    | HookFailed
    | ScheduleFailed
    | ScopesAwaited
    | PlansMissed
)
Reader = Callable[[Event], None]

_log = logging.getLogger("holdfast.telemetry")


def _hears_of(reader: Reader) -> Callable[[type[Event]], bool]:
    hears = getattr(reader, "hears", None)
    return hears if callable(hears) else _everything


def _everything(kind: type[Event]) -> bool:  # noqa: ARG001  # whatever it is
    return True


class Emitter:
    """Tells every reader. A reader that fails is reported and never disturbs the work."""

    def __init__(self, *readers: Reader) -> None:
        self._readers = readers
        self._hears = [_hears_of(reader) for reader in readers]

    def is_heard(self, kind: type[Event]) -> bool:
        """Whether any reader wants such events: for those that come with every attempt, which cost more to
        make than to ask for. A reader without a method `hears` wants all of them.
        """
        try:
            for hears in self._hears:  # a generator costs as much as an event
                if hears(kind):
                    return True
        except Exception:  # noqa: BLE001  # reported
            _log.exception("a reader of events failed: asked for %s", kind.__name__)
            return True
        return False

    def emit(self, event: Event) -> None:
        for reader in self._readers:
            try:
                reader(event)
            except Exception:  # noqa: BLE001  # reported
                _log.exception("a reader of events failed: event=%r", event)
