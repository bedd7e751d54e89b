"""What a worker knows of a kind of job: the function, how its arguments are read, how it is called."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from holdfast.codec.signature import Signature
from holdfast.domain.job import Policy
from holdfast.domain.retry import Retry
from holdfast.errors import InvalidInput

if TYPE_CHECKING:
    from holdfast.worker.context import Context

Style = Literal["coroutine", "thread", "process", "flow", "machine"]
Hook = Callable[["Context"], Awaitable[None] | None]
ErrorHook = Callable[["Context", BaseException], Awaitable[None] | None]

_TAKEN = {
    "on_start": "the context",
    "on_success": "the context",
    "on_failure": "the context and the error",
    "on_dead": "the context and the error",
    "on_lease_lost": "the context",
}


@dataclass(frozen=True, slots=True)
class Hooks:
    """What is called when something happens to a job. Those of a job win over those of the app."""

    on_start: Hook | None = None
    on_success: Hook | None = None
    on_failure: ErrorHook | None = None
    on_dead: ErrorHook | None = None
    on_lease_lost: Hook | None = None

    def __post_init__(self) -> None:
        for name, taken in _TAKEN.items():
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise InvalidInput(f"{name} is {hook!r}: give a function that takes {taken}")

    def over(self, general: "Hooks") -> "Hooks":
        """These where they are given, the general ones elsewhere."""
        return Hooks(
            self.on_start or general.on_start,
            self.on_success or general.on_success,
            self.on_failure or general.on_failure,
            self.on_dead or general.on_dead,
            self.on_lease_lost or general.on_lease_lost,
        )


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job. `memory_limit` (bytes) is for child processes."""

    policy: Policy
    function: Callable[..., Any]
    signature: Signature
    retry: Retry = field(default_factory=Retry)
    style: Style = "coroutine"
    memory_limit: int | None = None
    hooks: Hooks = field(default_factory=Hooks)

    @property
    def name(self) -> str:
        return self.policy.kind


Kinds = Mapping[str, Kind]
