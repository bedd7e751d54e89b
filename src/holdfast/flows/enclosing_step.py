"""Which step a piece of code runs in. The flow can do nothing else there: it resumes after steps, not inside
them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.flows.replay import Replay

_inside: ContextVar["tuple[Replay, str] | None"] = ContextVar("holdfast_inside", default=None)


@contextmanager
def inside(replay: "Replay", name: str) -> Iterator[None]:
    """Tasks and threads that begin in here are inside, too."""
    before = _inside.get()
    _inside.set((replay, name))
    try:
        yield
    finally:
        _inside.set(before)


def step_around(replay: "Replay") -> str | None:
    """The enclosing step of this flow; a step of another flow that runs this worker does not count."""
    found = _inside.get()
    return found[1] if found is not None and found[0] is replay else None
