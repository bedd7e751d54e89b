"""What a system must be able to do to be measured, and the job that all of them are given."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

QUEUE = "default"

Handle = Callable[[int], Awaitable[None]]
"""What a handler does with its job: the time at which it was sent is all that it looks at."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """About 100 bytes as JSON. `sent` is in nanoseconds of the machine's monotonic clock."""

    sent: int
    user_id: int = 4711
    template: str = "receipt"
    note: str = "thank you for your order"

    def fields(self) -> dict[str, Any]:
        return asdict(self)


class Producer(Protocol):
    async def one(self, receipt: Receipt) -> None:
        """Enqueue one job, and commit it."""

    async def many(self, receipts: Sequence[Receipt]) -> None:
        """Enqueue all of them, in the fastest way that the system documents."""


class Peer(Protocol):
    @property
    def name(self) -> str:
        """As its authors write it."""

    @property
    def unfinished(self) -> str:
        """A query that counts the jobs which the database does not know to be finished."""

    async def prepare(self, dsn: str) -> None:
        """Make the system's tables."""

    def producing(self, dsn: str, connections: int) -> AbstractAsyncContextManager[Producer]:
        """A producer that uses up to so many connections at once."""

    def working(self, dsn: str, concurrency: int, handle: Handle) -> AbstractAsyncContextManager[None]:
        """A worker that runs up to `concurrency` jobs at once, while the block runs."""
