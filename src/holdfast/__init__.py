"""Durable jobs for Python on the Postgres you already have."""

from holdfast.app import App
from holdfast.domain.retry import Retry, exponential
from holdfast.handle import Handle, JobStatus
from holdfast.job import Call, Job
from holdfast.worker.asks import Cancel, Fail, RetryLater, Snooze
from holdfast.worker.context import Context
from holdfast.worker.options import WorkerOptions

__version__ = "0.0.1"

__all__ = [
    "App",
    "Call",
    "Cancel",
    "Context",
    "Fail",
    "Handle",
    "Job",
    "JobStatus",
    "Retry",
    "RetryLater",
    "Snooze",
    "WorkerOptions",
    "__version__",
    "exponential",
]
