"""Durable jobs for Python on the Postgres you already have."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.codec.secrets import Secret
    from holdfast.domain.retention import Retention
    from holdfast.domain.retry import Retry, exponential, polynomial
    from holdfast.flows.events import Event
    from holdfast.flows.flow import Flow
    from holdfast.flows.machine import Done, Machine, Next, Step
    from holdfast.flows.records import FlowRecord, FlowRun, FlowStep, FlowSummary
    from holdfast.handle import Handle, JobStatus
    from holdfast.job import Call, Job
    from holdfast.postgres.options import PoolOptions
    from holdfast.producer.ambient_connection import OWN_TRANSACTION
    from holdfast.queue_operators import QueueStatus
    from holdfast.schedules.records import PlanRecord, Schedule
    from holdfast.schedules.scopes import Scope
    from holdfast.worker.context import Context
    from holdfast.worker.fired_plan import Plan
    from holdfast.worker.handler_requests import Cancel, Fail, RetryLater, Snooze
    from holdfast.worker.lease_keeper import Beats
    from holdfast.worker.options import WorkerOptions

__version__ = "0.0.1"

__all__ = [
    "OWN_TRANSACTION",
    "App",
    "Beats",
    "Call",
    "Cancel",
    "Context",
    "Done",
    "Event",
    "Fail",
    "Flow",
    "FlowRecord",
    "FlowRun",
    "FlowStep",
    "FlowSummary",
    "Handle",
    "Job",
    "JobStatus",
    "Machine",
    "Next",
    "Plan",
    "PlanRecord",
    "PoolOptions",
    "QueueStatus",
    "Retention",
    "Retry",
    "RetryLater",
    "Schedule",
    "Scope",
    "Secret",
    "Snooze",
    "Step",
    "WorkerOptions",
    "__version__",
    "exponential",
    "polynomial",
]

_HOMES = {
    "holdfast.producer.ambient_connection": ("OWN_TRANSACTION",),
    "holdfast.app": ("App",),
    "holdfast.codec.secrets": ("Secret",),
    "holdfast.domain.retry": ("Retry", "exponential", "polynomial"),
    "holdfast.flows.events": ("Event",),
    "holdfast.flows.flow": ("Flow",),
    "holdfast.flows.machine": ("Done", "Machine", "Next", "Step"),
    "holdfast.flows.records": ("FlowRecord", "FlowRun", "FlowStep", "FlowSummary"),
    "holdfast.handle": ("Handle", "JobStatus"),
    "holdfast.job": ("Call", "Job"),
    "holdfast.queue_operators": ("QueueStatus",),
    "holdfast.postgres.options": ("PoolOptions",),
    "holdfast.schedules.scopes": ("Scope",),
    "holdfast.schedules.records": ("PlanRecord", "Schedule"),
    "holdfast.domain.retention": ("Retention",),
    "holdfast.worker.handler_requests": ("Cancel", "Fail", "RetryLater", "Snooze"),
    "holdfast.worker.context": ("Context",),
    "holdfast.worker.lease_keeper": ("Beats",),
    "holdfast.worker.options": ("WorkerOptions",),
    "holdfast.worker.fired_plan": ("Plan",),
}


def __getattr__(name: str) -> object:
    """Public names are found when they are first asked for: `holdfast --help` needs no driver."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
