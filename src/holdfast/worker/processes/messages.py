"""The messages between a worker and a child process: pickles, each behind its length. Values of the user
travel as pickles inside these, so that one that cannot be read does no harm to the message.
"""

import pickle
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import structs

from holdfast.storage.runs import ClaimRow
from holdfast.worker.claimed_run import Stop
from holdfast.worker.processes.main_script import MainScript
from holdfast.worker.processes.pickled_error import PickledError

LENGTH = struct.Struct(">Q")

# Named tuples: every job comes by here, and a dataclass takes longer to make.


class ChildSettings(NamedTuple):
    """The first message to a child. `levels` are those of the worker's loggers, so that records that the
    worker would drop are not sent. `are_warnings_logged` says whether the worker logs Python's warnings.
    """

    arguments: list[str]
    levels: dict[str, int]
    are_warnings_logged: bool
    memory_limit: int | None


class CallHandler(NamedTuple):
    """Run a handler. `reference` has the values of its Reference, and `row` those of its ClaimRow, as
    `row_values` makes them: pickled by themselves, both would take several times as long. `arguments` is a
    pickled dict of keyword arguments. `believed_until` is on the clock that all processes of a host share: a
    call that is read later is not begun.
    """

    number: int
    reference: tuple[str, str, MainScript | None]
    worker: int
    queue: str
    row: tuple[Any, ...]
    takes_context: bool
    arguments: bytes
    believed_until: float


class StopCall(NamedTuple):
    """Stop soon: after a short grace the child is killed. Names its call, since that may have ended in the
    meantime.
    """

    call: int
    reason: Stop


class ProgressTaken(NamedTuple):
    """The worker has taken the call's progress, and the child may send more."""

    call: int


class Taken(NamedTuple):
    """The child has this call now. `is_begun` if it has called its function before, and so calls it at
    once.
    """

    call: int
    is_begun: bool


class Begun(NamedTuple):
    """The child calls the handler now: its timeout begins."""

    call: int


class Progress(NamedTuple):
    """Names its call: a thread that a handler left behind may report while the next call is under way."""

    call: int
    text: str


class Left(NamedTuple):
    """The child ends, as it was told to."""


class Logged(NamedTuple):
    """The attributes of a log record."""

    record: dict[str, Any]


class Ended(NamedTuple):
    """The handler returned (`result` is a pickle, or `lost` says why it is not sent) or raised. `state`
    is JSON text if it was touched. A child that `is_spent` ends. A call that came `is_too_late` was not
    begun; nor was one of a kind that `is_misconfigured`, as no attempt could be. `seconds` is what the call
    took.
    """

    call: int
    result: bytes | None = None
    lost: str | None = None
    is_too_large: bool = False
    raised: PickledError | None = None
    state: str | None = None
    is_spent: bool = False
    is_too_late: bool = False
    is_misconfigured: bool = False
    seconds: float = 0


ToChild = ChildSettings | CallHandler | StopCall | ProgressTaken
ToWorker = Taken | Begun | Progress | Logged | Ended | Left

# A message travels as a tuple behind its place here: pickled by itself it would carry the name of its class,
# and both sides would look that up for every job.
_KINDS: tuple[type[Any], ...] = (
    ChildSettings,
    CallHandler,
    StopCall,
    ProgressTaken,
    Taken,
    Begun,
    Progress,
    Logged,
    Ended,
    Left,
)
_PLACES = {kind: place for place, kind in enumerate(_KINDS)}


def row_values(row: ClaimRow) -> tuple[Any, ...]:
    """Without the arguments that the job was stored with. A time is a tuple, as nothing else is: pickled as
    it is, it takes longer than all the rest.
    """
    values = structs.astuple(structs.replace(row, args=""))
    return tuple([_time_values(value) if isinstance(value, datetime) else value for value in values])


def row_of(values: tuple[Any, ...]) -> ClaimRow:
    restored: list[Any] = [_time_of(*value) if isinstance(value, tuple) else value for value in values]
    return ClaimRow(*restored)


def _time_values(moment: datetime) -> tuple[float, Any]:
    zone = moment.tzinfo
    return moment.timestamp(), zone.key if isinstance(zone, ZoneInfo) else zone if zone is not UTC else None


def _time_of(timestamp: float, zone: Any) -> datetime:
    return datetime.fromtimestamp(timestamp, ZoneInfo(zone) if isinstance(zone, str) else zone or UTC)


def body_of(message: ToChild | ToWorker) -> bytes:
    return pickle.dumps((_PLACES[type(message)], *message), pickle.HIGHEST_PROTOCOL)


def read_body(body: bytes | bytearray | memoryview) -> Any:
    place, *values = pickle.loads(body)  # noqa: S301  # of our own worker or child
    return _KINDS[place](*values)


def framed(message: ToChild | ToWorker) -> bytes:
    return framed_body(body_of(message))


def framed_body(body: bytes) -> bytes:
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
            yield read_body(whole[begin + LENGTH.size : end])
            begin = end
        self._rest = bytearray(whole[begin:])
