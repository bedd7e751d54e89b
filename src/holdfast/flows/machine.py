"""State machines as their author writes them: steps with typed fields, each of which returns the next one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Never, NoReturn, TypeVar, dataclass_transform

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.domain.duration import Length, duration
from holdfast.domain.job import check_length
from holdfast.domain.retry import Retry
from holdfast.errors import InvalidInput

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from holdfast.domain.uniqueness import OnConflict, Unique
    from holdfast.handle import Handle
    from holdfast.job import Call, Job, Using

    # What a machine ends with: `class Import(Machine[Report])`; anything, if it does not say.
    R = TypeVarWithDefault("R", default=Any)
else:
    R = TypeVar("R")

D_co = TypeVar("D_co", covariant=True)


@dataclass(frozen=True, slots=True)
class StepPolicy:
    """How many attempts a step has and how long one may take; None where the machine's own applies."""

    retry: Retry | None = None
    timeout: timedelta | None = None


@dataclass_transform(frozen_default=True)
class Step:
    """One step of a machine: a frozen dataclass, whose fields are kept, and a method `run`, a coroutine or a
    plain one, which takes nothing or the Context, and returns Next or Done.

    `class Download(Step, retry=Retry(max_attempts=5), timeout="30s")`: how often this step is tried, and how
    long one try may take; else as the machine says, whose timeout is the limit in any case.
    """

    # A name that no field of a step can take.
    __step_policy__: ClassVar[StepPolicy] = StepPolicy()

    def __init_subclass__(
        cls, *, retry: Retry | None = None, timeout: Length | None = None, **unknown: Never
    ) -> None:
        super().__init_subclass__()
        for option in unknown:
            raise InvalidInput(
                f"{cls.__name__}: a step takes retry and timeout, not {option}{_instead(option)}"
            )
        if retry is not None:
            if not isinstance(retry, Retry):
                raise InvalidInput(f"the retry of {cls.__name__} is {retry!r}: give a Retry(max_attempts=…)")
            cls.__step_policy__ = replace(cls.__step_policy__, retry=retry)
        if timeout is not None:
            length = duration(timeout, name=f"the timeout of {cls.__name__}")
            check_length("timeout", length)
            cls.__step_policy__ = replace(cls.__step_policy__, timeout=length)
        dataclass(frozen=True)(cls)


def _instead(option: str) -> str:
    if option in ("isolate", "memory_limit"):
        return (
            '. What needs a process of its own is a job, @app.job(isolate="process"), that the step\'s run() '
            'enqueues; or write a flow: its steps take it, flow.step(…, isolate="process")'
        )
    return did_you_mean(option, ("retry", "timeout")) or ", which @app.machine(…) may take"


@dataclass(frozen=True, slots=True)
class Next:
    """What a step returns to move on: `Next(Parse(path))`, or later, with no worker held in between,
    `Next(Poll(), after="10m")`. The new step has all of its attempts.
    """

    step: Step
    after: Length | None = None

    @property
    def delay(self) -> timedelta | None:
        """InvalidInput if it is not a length of time that can be waited for."""
        if self.after is None:
            return None
        delay = duration(self.after, name="after")
        check_length("after", delay)
        if delay < timedelta():
            raise InvalidInput(f"after is {self.after!r}: it must not be negative")
        return delay


@dataclass(frozen=True, slots=True)
class Done(Generic[D_co]):
    """What the last step returns, with the machine's result: `Done(report)`, or `Done(None)`."""

    result: D_co


class Machine(Generic[R]):
    """A job of explicit steps, written as classes inside of it. `@app.machine` makes it known to an app;
    `await Import.enqueue(Import.Download(url))` starts one. `class Import(Machine[Report])` says what it
    ends with.
    """

    __machine_job__: ClassVar["Job[[Step], Any] | None"] = None

    if not TYPE_CHECKING:  # type checkers know that it takes no arguments

        def __new__(cls, *_args: object, **_kwargs: object) -> NoReturn:
            name = cls.__name__
            raise TypeError(
                f"{name} is a machine, which runs in a worker: {name}.enqueue({name}.…), awaited, or "
                f"{name}.enqueue_sync({name}.…) starts it at a step. The run() of a step calls that step "
                "itself, here and now"
            )

    @classmethod
    async def enqueue(cls, step: Step, /) -> "Handle[R]":
        """Start a machine at this step, in a transaction of its own; `using(conn=…)` for yours."""
        return await cls._registered().enqueue(step)

    @classmethod
    def enqueue_sync(cls, step: Step, /) -> "Handle[R]":
        """The same, blocking."""
        return cls._registered().enqueue_sync(step)

    @classmethod
    def call(cls, step: Step, /) -> "Call[R]":
        """A start at this step, to be given to `app.enqueue_many` or to a schedule."""
        return cls._registered().call(step)

    @classmethod
    def using(
        cls,
        *,
        conn: object = None,
        delay: Length | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        unique: "Unique | None" = None,
        on_conflict: "OnConflict | None" = None,
        debounce: Length | None = None,
        max_wait: Length | None = None,
        unique_for: Length | None = None,
        deadline: Length | datetime | None = None,
        tags: Sequence[str] | None = None,
        retry: Retry | None = None,
        timeout: Length | None = None,
        keep: Length | None = None,
    ) -> "Using[[Step], R]":
        """The same with options, those of `job.using`. A step's own `retry` wins over the one given here."""
        return cls._registered().using(
            conn=conn,
            delay=delay,
            at=at,
            priority=priority,
            queue=queue,
            unique=unique,
            on_conflict=on_conflict,
            debounce=debounce,
            max_wait=max_wait,
            unique_for=unique_for,
            deadline=deadline,
            tags=tags,
            retry=retry,
            timeout=timeout,
            keep=keep,
        )

    @classmethod
    def _registered(cls) -> "Job[[Step], Any]":
        # Its own: a machine that another one is derived from may be known to an app, too.
        job: Job[[Step], Any] | None = vars(cls).get("__machine_job__")
        if job is None:
            raise InvalidInput(f"{cls.__name__} does not belong to an app yet: write @app.machine above it")
        return job
