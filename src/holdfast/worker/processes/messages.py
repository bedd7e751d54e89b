"""The messages between a worker and a child process: pickles, each behind its length. Values of the user
travel as pickles inside these, so that one that cannot be read does no harm to the message.
"""

import pickle
import struct
from dataclasses import dataclass
from typing import Any

from holdfast.storage.runs import ClaimRow
from holdfast.worker.claimed_run import Stop
from holdfast.worker.processes.pickled_error import PickledError
from holdfast.worker.processes.reference import Reference

LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """The first message to a child. `levels` are those of the worker's loggers, so that records that the
    worker would drop are not sent. `are_warnings_logged` says whether the worker logs Python's warnings.
    """

    arguments: list[str]
    levels: dict[str, int]
    are_warnings_logged: bool
    memory_limit: int | None


@dataclass(frozen=True, slots=True)
class CallHandler:
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


@dataclass(frozen=True, slots=True)
class StopRun:
    """Stop soon: after a short grace the child is killed. Names its run, since the run may have ended in the
    meantime.
    """

    run: int
    reason: Stop


@dataclass(frozen=True, slots=True)
class ProgressTaken:
    """The worker has taken the run's progress, and the child may send more."""

    run: int


@dataclass(frozen=True, slots=True)
class Begun:
    """The child calls the handler now: its timeout begins."""

    run: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Names its run: a thread that a handler left behind may report while the next run is under way."""

    run: int
    text: str


@dataclass(frozen=True, slots=True)
class Logged:
    """The attributes of a log record."""

    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
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
