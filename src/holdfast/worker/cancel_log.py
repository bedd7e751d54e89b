"""Logs which waiting jobs were cancelled. No worker runs them, so the process that cancels them logs it."""

import logging
from collections.abc import Sequence

from holdfast.storage.operators import CancelAnswer

_EACH = 20
_log = logging.getLogger("holdfast.app")


def log_cancelled(reason: str, ended: Sequence[CancelAnswer]) -> None:
    """One line for each of the first jobs. On a caller's connection, it is true once that commits."""
    from holdfast.telemetry.log_lines import say

    for row in ended[:_EACH]:
        say(
            _log,
            logging.INFO,
            "job cancelled while it waited",
            job=row.job,
            kind=row.kind,
            queue=row.queue,
            reason=reason,
        )
    if len(ended) > _EACH:
        say(
            _log,
            logging.INFO,
            "more jobs cancelled while they waited",
            count=len(ended) - _EACH,
            reason=reason,
        )
