"""How jobs of a kind are put together for one call of its handler: how many, and for how long to wait."""

from collections.abc import Callable
from datetime import timedelta
from typing import Generic, ParamSpec, TypeVar

from holdfast.domain.duration import Length, duration
from holdfast.domain.job import is_whole
from holdfast.errors import InvalidInput

P = ParamSpec("P")
A = TypeVar("A")

LARGEST = 10_000
LONGEST_WAIT = timedelta(hours=1)


class Batch(Generic[P, A]):
    """Up to `size` jobs in one call: `@app.job(batch=Batch(100, of=Document, wait="200ms"))`. Each job has
    the fields of `of` as its arguments; the handler takes a list of these. No job is begun before so many are
    ready, or the oldest of them has been ready for `wait`.
    """

    __slots__ = ("of", "size", "wait")

    def __init__(self, size: int, *, of: Callable[P, A], wait: Length) -> None:
        if not is_whole(size) or not 1 <= size <= LARGEST:
            raise InvalidInput(f"the size of a batch is {size!r}: give a whole number from 1 to {LARGEST:,}")
        _check_item(of)
        self.size = size
        self.of = of
        self.wait = duration(wait, name="wait")
        if not timedelta() <= self.wait <= LONGEST_WAIT:
            raise InvalidInput(
                f'the wait of a batch is {wait!r}: give a length of time from "0s" to "1h", such as "200ms"'
            )

    def __repr__(self) -> str:
        return f"Batch({self.size}, of={getattr(self.of, '__name__', self.of)}, wait={self.wait})"


def _check_item(of: object) -> None:
    if not callable(of) or hasattr(of, "enqueue"):
        raise InvalidInput(
            f"a batch is of {of!r}: give the class whose fields are the arguments of one job, such as a "
            "dataclass"
        )
