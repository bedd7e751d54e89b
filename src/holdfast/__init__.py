"""Durable jobs for Python on the Postgres you already have."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.codec.secrets import Secret
    from holdfast.domain.batch import Batch
    from holdfast.domain.group import EndedGroup, GroupCounts
    from holdfast.domain.limit_keys import Use
    from holdfast.domain.limits import Breaker, Limit, Rate
    from holdfast.domain.retention import Retention
    from holdfast.domain.retry import Retry, exponential, polynomial
    from holdfast.flows.events import Event
    from holdfast.flows.flow import Flow
    from holdfast.flows.machine import Done, Machine, Next, Step
    from holdfast.flows.records import FlowRecord, FlowRun, FlowStep, FlowSummary
    from holdfast.group import Group
    from holdfast.handle import Handle, JobStatus
    from holdfast.insights.group_records import GroupStatus, Member
    from holdfast.insights.queue_records import QueueStatus
    from holdfast.job import Call, Job
    from holdfast.postgres.options import PoolOptions
    from holdfast.producer.ambient_connection import OWN_TRANSACTION
    from holdfast.schedules.records import PlanRecord, Schedule
    from holdfast.schedules.scopes import Scope
    from holdfast.worker.batch_context import BatchContext
    from holdfast.worker.context import Context
    from holdfast.worker.fired_plan import Plan
    from holdfast.worker.handler_requests import BatchFailed, Cancel, CloseLimit, Fail, RetryLater, Snooze
    from holdfast.worker.lease_keeper import Beats
    from holdfast.worker.middleware import Middleware, OutgoingJob
    from holdfast.worker.options import WorkerOptions

__version__ = "0.0.1"

__all__ = [
    "OWN_TRANSACTION",
    "App",
    "Batch",
    "BatchContext",
    "BatchFailed",
    "Beats",
    "Breaker",
    "Call",
    "Cancel",
    "CloseLimit",
    "Context",
    "Done",
    "EndedGroup",
    "Event",
    "Fail",
    "Flow",
    "FlowRecord",
    "FlowRun",
    "FlowStep",
    "FlowSummary",
    "Group",
    "GroupCounts",
    "GroupStatus",
    "Handle",
    "Job",
    "JobStatus",
    "Limit",
    "Machine",
    "Member",
    "Middleware",
    "Next",
    "OutgoingJob",
    "Plan",
    "PlanRecord",
    "PoolOptions",
    "QueueStatus",
    "Rate",
    "Retention",
    "Retry",
    "RetryLater",
    "Schedule",
    "Scope",
    "Secret",
    "Snooze",
    "Step",
    "Use",
    "WorkerOptions",
    "__version__",
    "exponential",
    "polynomial",
]

_HOMES = {
    "holdfast.producer.ambient_connection": ("OWN_TRANSACTION",),
    "holdfast.app": ("App",),
    "holdfast.codec.secrets": ("Secret",),
    "holdfast.domain.batch": ("Batch",),
    "holdfast.domain.limit_keys": ("Use",),
    "holdfast.domain.limits": ("Breaker", "Limit", "Rate"),
    "holdfast.domain.group": ("EndedGroup", "GroupCounts"),
    "holdfast.domain.retry": ("Retry", "exponential", "polynomial"),
    "holdfast.flows.events": ("Event",),
    "holdfast.flows.flow": ("Flow",),
    "holdfast.flows.machine": ("Done", "Machine", "Next", "Step"),
    "holdfast.flows.records": ("FlowRecord", "FlowRun", "FlowStep", "FlowSummary"),
    "holdfast.group": ("Group",),
    "holdfast.handle": ("Handle", "JobStatus"),
    "holdfast.job": ("Call", "Job"),
    "holdfast.insights.group_records": ("GroupStatus", "Member"),
    "holdfast.insights.queue_records": ("QueueStatus",),
    "holdfast.postgres.options": ("PoolOptions",),
    "holdfast.schedules.scopes": ("Scope",),
    "holdfast.schedules.records": ("PlanRecord", "Schedule"),
    "holdfast.domain.retention": ("Retention",),
    "holdfast.worker.handler_requests": (
        "BatchFailed",
        "Cancel",
        "CloseLimit",
        "Fail",
        "RetryLater",
        "Snooze",
    ),
    "holdfast.worker.batch_context": ("BatchContext",),
    "holdfast.worker.context": ("Context",),
    "holdfast.worker.lease_keeper": ("Beats",),
    "holdfast.worker.middleware": ("Middleware", "OutgoingJob"),
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
