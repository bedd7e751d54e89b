"""The messages between a worker and a child process: pickles, each behind its length. Values of the user
travel as pickles inside these, so that one that cannot be read does no harm to the message.
"""

import pickle
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.storage.runs import ClaimRow
from holdfast.worker.claimed_run import Stop
from holdfast.worker.processes.pickled_error import PickledError
from holdfast.worker.processes.reference import Reference

LENGTH = struct.Struct(">Q")

# Named tuples: every job comes by here, and a dataclass takes four times as long to pickle.


class ChildSettings(NamedTuple):
    """The first message to a child. `levels` are those of the worker's loggers, so that records that the
    worker would drop are not sent. `are_warnings_logged` says whether the worker logs Python's warnings.
    """

    arguments: list[str]
    levels: dict[str, int]
    are_warnings_logged: bool
    memory_limit: int | None


class CallHandler(NamedTuple):
    """Run a handler. `arguments` is a pickled dict of keyword arguments. `believed_until` is on the clock
    that all processes of a host share: a call that is read later is not begun.
    """

    reference: Reference
    worker: int
    queue: str
    row: ClaimRow
    takes_context: bool
    arguments: bytes
    believed_until: float


class StopRun(NamedTuple):
    """Stop soon: after a short grace the child is killed. Names its run, since the run may have ended in the
    meantime.
    """

    run: int
    reason: Stop


class ProgressTaken(NamedTuple):
    """The worker has taken the run's progress, and the child may send more."""

    run: int


class Begun(NamedTuple):
    """The child calls the handler now: its timeout begins."""

    run: int


class Progress(NamedTuple):
    """Names its run: a thread that a handler left behind may report while the next run is under way."""

    run: int
    text: str


class Logged(NamedTuple):
    """The attributes of a log record."""

    record: dict[str, Any]


class Ended(NamedTuple):
    """The handler returned (`result` is a pickle, or `lost` says why it is not sent) or raised. `state`
    is JSON text if it was touched. A child that `is_spent` should not be used again. A call that
    came `is_too_late` was not begun; nor was one of a kind that `is_misconfigured`, as no attempt could be.
    """

    run: int
    result: bytes | None = None
    lost: str | None = None
    is_too_large: bool = False
    raised: PickledError | None = None
    state: str | None = None
    is_spent: bool = False
    is_too_late: bool = False
    is_misconfigured: bool = False


ToChild = ChildSettings | CallHandler | StopRun | ProgressTaken
ToWorker = Begun | Progress | Logged | Ended


def framed(message: ToChild | ToWorker) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


class Frames:
    """Takes messages apart that come in pieces, or several at once."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def read(self, data: bytes) -> Iterator[Any]:
        """The messages that are whole now."""
        if self._rest:
            self._rest += data
            whole: bytes | bytearray = self._rest
        else:
            whole = data
        begin, size = 0, len(whole)
        while size - begin >= LENGTH.size:
            (length,) = LENGTH.unpack_from(whole, begin)
            end = begin + LENGTH.size + length
            if end > size:
                break
            yield pickle.loads(whole[begin + LENGTH.size : end])  # noqa: S301  # from our own child
            begin = end
        self._rest = bytearray(whole[begin:])
