"""The options of `@app.job`, `@app.flow` and `@app.machine`: one list for type checkers, and one value with
their defaults and what is made of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from holdfast.domain.batch import Batch
from holdfast.domain.duration import Length
from holdfast.domain.job import Policy
from holdfast.domain.kept_logs import KeepLogs, read_keep_logs
from holdfast.domain.limits import Limit
from holdfast.domain.retry import Retry
from holdfast.domain.uniqueness import OnConflict, Unique, Uniqueness
from holdfast.job import Options
from holdfast.worker.job_kind import HOOK_NAMES, ErrorHook, Hook, Hooks
from holdfast.worker.middleware import Middleware, Middlewares, read_middleware


class FlowOptions(TypedDict, total=False):
    """What flows and machines take, and jobs too."""

    name: str | None
    queue: str
    priority: int
    retry: Retry | None
    timeout: Length | None
    keep: Length | None
    tags: Sequence[str]
    unique: Unique | None
    on_conflict: OnConflict | None
    debounce: Length | None
    max_wait: Length | None
    unique_for: Length | None
    keep_logs: KeepLogs | None
    middleware: Sequence[Middleware]
    limit: Limit | Sequence[Limit] | None
    on_start: Hook | None
    on_success: Hook | None
    on_failure: ErrorHook | None
    on_dead: ErrorHook | None
    on_lease_lost: Hook | None
    on_expired: ErrorHook | None
    on_cancelled: ErrorHook | None


class JobOptions(FlowOptions, total=False):
    """What only jobs take beside these."""

    on_lost: Literal["retry", "fail"]
    isolate: Literal["process"] | None
    memory_limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOptions:
    """The same with their defaults."""

    name: str | None = None
    queue: str = "default"
    priority: int = 5
    retry: Retry | None = None
    timeout: Length | None = None
    keep: Length | None = None
    tags: Sequence[str] = ()
    unique: Unique | None = None
    on_conflict: OnConflict | None = None
    debounce: Length | None = None
    max_wait: Length | None = None
    unique_for: Length | None = None
    keep_logs: KeepLogs | None = None
    middleware: Sequence[Middleware] = ()
    limit: Limit | Sequence[Limit] | None = None
    on_lost: Literal["retry", "fail"] = "retry"
    isolate: Literal["process"] | None = None
    memory_limit: int | None = None
    batch: Batch[..., Any] | None = None
    """Not in `JobOptions`: for type checkers, `app.job` with a batch is another decorator."""
    on_start: Hook | None = None
    on_success: Hook | None = None
    on_failure: ErrorHook | None = None
    on_dead: ErrorHook | None = None
    on_lease_lost: Hook | None = None
    on_expired: ErrorHook | None = None
    on_cancelled: ErrorHook | None = None

    asked: Options = field(init=False)
    """The options that `job.using(…)` can change for one job."""

    def __post_init__(self) -> None:
        asked = Options(
            priority=self.priority,
            queue=self.queue,
            tags=self.tags,
            retry=self.retry,
            timeout=self.timeout,
            keep=self.keep,
            unique=self.unique,
            on_conflict=self.on_conflict,
            debounce=self.debounce,
            max_wait=self.max_wait,
            unique_for=self.unique_for,
        )
        object.__setattr__(self, "asked", asked)

    def within(self, general: Sequence[Middleware]) -> Middlewares:
        """The app's middleware, and these inside of it."""
        return Middlewares.of((*general, *read_middleware(self.middleware)))

    @property
    def hooks(self) -> Hooks:
        return Hooks(**{name: getattr(self, name) for name in HOOK_NAMES})

    def keeping_logs(self, general: KeepLogs) -> KeepLogs:
        """Which log lines of its runs are kept, by the app in general where it does not say so itself."""
        return general if self.keep_logs is None else read_keep_logs(self.keep_logs)

    @property
    def uniqueness(self) -> Uniqueness:
        """What makes its jobs unique, checked."""
        unique = self.asked.uniqueness
        unique.check()
        return unique

    def policy(self, own_name: str) -> Policy:
        """`own_name`: the function's or the machine's."""
        return self.asked.policy(Policy(own_name if self.name is None else self.name, on_lost=self.on_lost))


def read_options(options: Mapping[str, Any], taken: frozenset[str], decorator: str) -> KindOptions:
    """What was given to a decorator that takes these. Python itself would refuse others in these words."""
    unknown = sorted(options.keys() - taken)
    if unknown:
        raise TypeError(f"{decorator}() got an unexpected keyword argument {unknown[0]!r}")
    return KindOptions(**options)
