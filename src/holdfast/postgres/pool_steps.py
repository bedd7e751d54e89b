"""What the pools' shared core asks `Pool` and `BlockingPool` to do: the only I/O that it knows."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from holdfast.postgres.pooled_connection import Pooled

C = TypeVar("C", bound=Pooled)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Connect:
    """Answered with a new connection."""


@dataclass(frozen=True, slots=True)
class Ask(Generic[C]):
    """Send a text without parameters and wait for its end, for at most `CHECK_SECONDS`."""

    connection: C
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class RollBack(Generic[C]):
    connection: C


@dataclass(frozen=True, slots=True)
class Queue:
    """Wait to be handed a connection, for at most so many seconds. Answered with it, or with None."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait until the tender is needed, or for so many seconds; with `is_rest` until they are over."""

    seconds: float
    is_rest: bool = False


Step: TypeAlias = "Connect | Ask[Any] | RollBack[Any] | Queue | Sleep"
Work: TypeAlias = Generator[Step, Any, R]


class Waiter(Generic[C]):
    """A caller in the queue: the core puts a connection here and calls `wake`."""

    __slots__ = ("connection", "wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake
        self.connection: C | None = None
