"""The run that the current task or thread belongs to: for log records and warnings."""

import logging
from collections.abc import Mapping
from contextvars import ContextVar

from holdfast.worker.claimed_run import ClaimedRun

current_run: ContextVar[ClaimedRun] = ContextVar("holdfast_run")


def log_facts(claimed: ClaimedRun) -> Mapping[str, object]:
    """What a log record says of a run."""
    return claimed.log_facts


def log_of(claimed: ClaimedRun) -> "logging.LoggerAdapter[logging.Logger]":
    """A logger whose records carry job, run and attempt."""
    return logging.LoggerAdapter(
        logging.getLogger(f"holdfast.job.{claimed.row.kind}"), dict(log_facts(claimed))
    )
