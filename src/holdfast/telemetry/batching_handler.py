"""The handler of a worker's log. While the worker runs, a thread writes the lines."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from holdfast.telemetry.line_writer import LineWriter
from holdfast.telemetry.log_lines import fact_record

_log = logging.getLogger("holdfast.log")


class BatchingHandler(logging.StreamHandler[TextIO]):
    """Formats each record where it is logged. Then the line is written at once, as by any StreamHandler, or
    while it is `batching`, within milliseconds and together with others.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._writer: LineWriter | None = None

    @contextmanager
    def batching(self) -> Iterator[None]:
        """Writes everything before the block ends, unless the reader of the log takes nothing for a second,
        or not everything within five. That reader may be stuck forever, so later lines are not waited for
        and the process can end.
        """
        if not _has_file(self.stream):
            yield
            return
        self.flush()
        self._writer = LineWriter(self.stream, self._notice)
        _batching.add(self)
        try:
            yield
        finally:
            self._end_batching()

    def emit(self, record: logging.LogRecord) -> None:
        writer = self._writer
        if writer is None:
            super().emit(record)
            return
        try:
            line = self.format(record) + self.terminator
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001  # reported, as every handler of logging does
            self.handleError(record)
        else:
            writer.put(line)

    def flush(self) -> None:
        writer = self._writer
        if writer is None:
            super().flush()
        else:
            writer.flush()

    def close(self) -> None:
        if self in _batching:
            self._end_batching()
        super().close()

    def write_at_once(self) -> None:
        """In a forked process, which has no copy of the thread. What was logged before the fork is written by
        the other one.
        """
        self._writer = None

    def _end_batching(self) -> None:
        _batching.discard(self)
        self.acquire()  # or a line of another thread could come behind the writer's last one
        try:
            if self._writer is not None and self._writer.close():
                self._writer = None
        finally:
            self.release()

    def _notice(self, missing: int, why: str) -> str:
        record = fact_record(_log, logging.WARNING, "log lines are missing here", lines=missing, reason=why)
        return self.format(record) + self.terminator


def _has_file(stream: TextIO | None) -> bool:
    """One that was put in the place of stderr may have none, and a process without stderr has no stream."""
    try:
        return stream is not None and stream.fileno() >= 0
    except (AttributeError, OSError, ValueError):
        return False


_batching: set[BatchingHandler] = set()


def write_out() -> None:
    """Write what waits: before an end of the process that runs no more code of Python's, and before a fork,
    whose lines come behind it.
    """
    for handler in tuple(_batching):
        handler.flush()


def _in_fork() -> None:
    for handler in tuple(_batching):
        handler.write_at_once()
    _batching.clear()


os.register_at_fork(before=write_out, after_in_child=_in_fork)
