"""How a worker calls flows: those that are plain code, and those that are machines."""

from collections.abc import Mapping

from holdfast.domain.retention import Retention
from holdfast.flows.flow_caller import FlowCaller
from holdfast.flows.machine_caller import MachineCaller
from holdfast.flows.recorder import Recorder
from holdfast.postgres.schema import Schema
from holdfast.worker.callers import Caller
from holdfast.worker.connections import Connections
from holdfast.worker.job_kind import Style
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.processes import Processes


def callers_for(
    schema: Schema, retention: Retention, connections: Connections, threads: JobThreads, processes: Processes
) -> Mapping[Style, Caller]:
    recorder = Recorder(connections.calm, schema, retention, connections.notifier.tell)
    return {
        "flow": FlowCaller(recorder, connections.handlers, threads, processes),
        "machine": MachineCaller(connections.calm, schema, threads, connections.notifier),
    }
