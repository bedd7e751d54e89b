"""A kind of job as a worker knows it: its function, how arguments are read, how it is called, its hooks."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, assert_never

from holdfast.codec.signature import Signature
from holdfast.domain.batch import Batch
from holdfast.domain.job import Policy
from holdfast.domain.kept_logs import KeepLogs
from holdfast.domain.redaction import Redaction, Redactions
from holdfast.domain.retry import Retry
from holdfast.domain.states import RUN_OUTCOMES, RunOutcome
from holdfast.domain.uniqueness import NOT_UNIQUE, Uniqueness
from holdfast.errors import InvalidInput
from holdfast.worker.kind_limits import KindLimits
from holdfast.worker.middleware import NO_MIDDLEWARE, Middlewares

if TYPE_CHECKING:
    from holdfast.worker.context import Context

Style = Literal["coroutine", "thread", "process", "flow", "machine"]
Hook = Callable[["Context"], Awaitable[None] | None]
ErrorHook = Callable[["Context", BaseException], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions to call when something happens to a job. Those of a job win over those of the app.

    A new one is also a parameter of `App` and a line in `FlowOptions` and `KindOptions`, for type checkers.
    """

    on_start: Hook | None = None
    on_success: Hook | None = None
    on_failure: ErrorHook | None = None
    on_dead: ErrorHook | None = None
    on_lease_lost: Hook | None = None
    on_expired: ErrorHook | None = None
    on_cancelled: ErrorHook | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            hook = getattr(self, each.name)
            # A job is callable as well, and would be enqueued by mistake.
            if hook is not None and (not callable(hook) or hasattr(hook, "enqueue")):
                taken = "the context and the error" if each.type == ErrorHook | None else "the context"
                raise InvalidInput(f"{each.name} is {hook!r}: give a function that takes {taken}")

    def over(self, general: "Hooks") -> "Hooks":
        """These hooks, and the general ones where none is given."""
        return Hooks(**{name: getattr(self, name) or getattr(general, name) for name in HOOK_NAMES})

    def told_of(self, outcome: RunOutcome) -> tuple[tuple[str, ErrorHook | None], ...]:
        """The hooks to call, in order, once a run or a waiting job has ended with this outcome."""
        if outcome not in RUN_OUTCOMES:
            return ()  # newer code has written it
        match outcome:
            case "retried":
                return (("on_failure", self.on_failure),)
            case "failed":
                return (("on_failure", self.on_failure), ("on_dead", self.on_dead))
            case "expired":
                return (("on_expired", self.on_expired),)
            case "cancelled":
                return (("on_cancelled", self.on_cancelled),)
            case "succeeded" | "snoozed" | "released":
                return ()
            case _:
                assert_never(outcome)


HOOK_NAMES = tuple(each.name for each in fields(Hooks))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job. `memory_limit` (bytes) is for child processes. `batch`: its handler takes a list."""

    policy: Policy
    function: Callable[..., Any]
    signature: Signature
    retry: Retry = field(default_factory=Retry)
    style: Style = "coroutine"
    memory_limit: int | None = None
    hooks: Hooks = field(default_factory=Hooks)
    keep_logs: KeepLogs = "never"
    middleware: Middlewares = NO_MIDDLEWARE
    limits: KindLimits | None = None
    batch: Batch[..., Any] | None = None
    uniqueness: Uniqueness = NOT_UNIQUE

    @property
    def name(self) -> str:
        return self.policy.kind


Kinds = Mapping[str, Kind]


def heard(kinds: Kinds) -> dict[str, list[str]]:
    """For each outcome that hooks exist for, the kinds that have such a hook."""
    return {
        outcome: [
            name for name, kind in kinds.items() if any(hook for _, hook in kind.hooks.told_of(outcome))
        ]
        for outcome in RUN_OUTCOMES
        if Hooks().told_of(outcome)
    }


def declared_redactions(kinds: Kinds) -> Redactions:
    """What is secret in each kind, by its own signature."""
    read = {name: _redaction(kind) for name, kind in kinds.items()}
    return Redactions({name: redaction for name, redaction in read.items() if redaction is not None})


def _redaction(kind: Kind) -> Redaction | None:
    try:
        return kind.signature.redaction
    except InvalidInput:  # its annotations cannot be read, which is told when it is used
        return None
