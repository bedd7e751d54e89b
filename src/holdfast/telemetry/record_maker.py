"""Makes log records for lines of which there are thousands in a second."""

import asyncio
import logging
import os
from threading import get_ident
from time import time
from typing import NamedTuple

_LogRecord = logging.LogRecord


def blank_record(
    logger: logging.Logger, level: int, message: str, args: tuple[object, ...]
) -> logging.LogRecord:
    """As logging makes it, for a line that is about an event and not about a place in the code."""
    return logger.makeRecord(logger.name, level, __file__, 0, message, args, None, "say")


class _Model(NamedTuple):
    """The attributes of a record that others of the same second and thread share."""

    second: int
    thread: int
    started: float
    attributes: dict[str, object]


_NONE = _Model(-1, 0, 0.0, {})


class RecordMaker:
    """Makes ordinary records for one logger at one level, by copying one that logging has made within the
    same second: 1 µs in place of 3. Where the program has its own record factory or class of loggers, logging
    makes each of them.
    """

    def __init__(self, logger: logging.Logger, level: int) -> None:
        self._logger = logger
        self._level = level
        self._model = _NONE
        # Asking for the number of this process with every line would cost as much as the rest of a record.
        os.register_at_fork(after_in_child=self._forget)

    def make(self, message: str, args: tuple[object, ...]) -> logging.LogRecord:
        now = time()
        second = int(now)
        model = self._model
        is_ordinary = logging.getLogRecordFactory() is _LogRecord and type(self._logger) is logging.Logger
        if not is_ordinary:
            return blank_record(self._logger, self._level, message, args)
        if model.second != second or model.thread != get_ident():
            return self._modelled(message, args)
        record = _LogRecord.__new__(_LogRecord)
        attributes = record.__dict__ = model.attributes.copy()
        attributes["msg"] = message
        attributes["args"] = args
        attributes["created"] = now
        attributes["msecs"] = float(int((now - second) * 1_000))
        attributes["relativeCreated"] = (now - model.started) * 1_000
        if "taskName" in attributes:  # since Python 3.12
            attributes["taskName"] = _task_name()
        return record

    def _modelled(self, message: str, args: tuple[object, ...]) -> logging.LogRecord:
        record = blank_record(self._logger, self._level, message, args)
        shared = {**vars(record), "msg": "", "args": ()}
        started = record.created - record.relativeCreated / 1_000
        self._model = _Model(int(record.created), get_ident(), started, shared)
        return record

    def _forget(self) -> None:
        self._model = _NONE


def _task_name() -> str | None:
    if not getattr(logging, "logAsyncioTasks", True):
        return None
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs here
        return None
    return None if task is None else task.get_name()
