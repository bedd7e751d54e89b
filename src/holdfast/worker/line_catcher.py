"""Catches the log lines of the runs that keep them: a handler of Python's root logger that finds the run by
the current context, in whichever task or thread.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.domain.kept_logs import LINE_CHARACTERS, KeptLine
from holdfast.worker.current_run import current_run

_OWN = "holdfast."
_OF_JOBS = "holdfast.job."


class LineCatcher(logging.Handler):
    """One for the process. Its lock, which logging makes anew in a forked process, also guards the lines."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._users = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._users += 1
        self.stay()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                logging.root.removeHandler(self)

    def stay(self) -> None:
        """Code that sets up logging again throws all handlers out."""
        if self not in logging.root.handlers:
            logging.root.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            claimed = current_run.get(None)
            if claimed is not None and claimed.lines is not None and _is_the_jobs_own(record.name):
                is_plain = not (record.exc_info or record.exc_text or record.stack_info)
                message = record.getMessage() if is_plain else self.format(record)
                cut = message[:LINE_CHARACTERS]
                claimed.lines.add(KeptLine(record.created, record.levelname, record.name, cut))
            if len(logging.root.handlers) == 1:
                self._stand_back(record)
        except Exception:  # noqa: BLE001  # as every handler does: logging never fails the code that logs
            self.handleError(record)

    def _stand_back(self, record: logging.LogRecord) -> None:
        """Without any handler Python prints warnings on stderr. This one must not end that."""
        last = logging.lastResort
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None and logger is not logging.root:
            if logger.handlers:
                return
            logger = logger.parent
        if last is not None and record.levelno >= last.level:
            last.handle(record)


def _is_the_jobs_own(logger: str) -> bool:
    """What the worker itself says of a run is in the ledger."""
    return not logger.startswith(_OWN) or logger.startswith(_OF_JOBS)


catcher = LineCatcher()
