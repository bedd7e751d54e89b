"""What flows bring along: a way of calling them and a chore for the leader, and the payload of an event."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.codec.result import encoder, loses_number
from holdfast.domain.job import check_args_text
from holdfast.errors import InvalidInput
from holdfast.flows.flow_caller import Flows
from holdfast.flows.machine_caller import Machines
from holdfast.flows.recorder import Recorder
from holdfast.flows.waking import Waker
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.telemetry.events import Emitter
from holdfast.worker.callers import Caller
from holdfast.worker.chores.pace import Chore
from holdfast.worker.connections import Connections
from holdfast.worker.job_kind import Style
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.processes import Processes


def callers_for(
    schema: Schema, connections: Connections, threads: JobThreads, processes: Processes
) -> Mapping[Style, Caller]:
    recorder = Recorder(connections.calm, schema, connections.notifier.tell)
    return {
        "flow": Flows(recorder, connections.handlers, threads, processes),
        "machine": Machines(connections.calm, schema, threads, connections.notifier),
    }


def chores_for(schema: Schema, database: Database, emitter: Emitter) -> Sequence[Chore]:
    once = Waker(database, schema).once
    return [Chore("flows", once, emitter, shortest=1, longest=20, is_woken=True, fills_ready=True)]


def payload_text(event: str, payload: Any) -> str | None:
    """As JSON; None for nothing. Whether it fits the type that a flow asks for is seen when that reads it."""
    if payload is None:
        return None
    try:
        text = encoder.encode(payload).decode()
        check_args_text(text)
        is_lossy = loses_number(payload, text)
    except Exception as error:  # a model of the user's may raise anything
        raise InvalidInput(f'the payload of event "{event}" cannot be written as JSON: {error}') from error
    if is_lossy:
        raise InvalidInput(
            f'the payload of event "{event}" holds NaN or infinity, which JSON has no number for: '
            "give None, or a text"
        )
    return text
