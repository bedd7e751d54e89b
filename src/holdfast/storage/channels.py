"""The notification channels that workers listen to: one home for their names. SQL writes a channel as
`{schema_name}.ready`, Python as `Channel.READY.in_schema(schema)`.
"""

from enum import StrEnum

from holdfast.postgres.schema import Schema


class Channel(StrEnum):
    """Each says what has happened; the payload is what the sender knows of it."""

    READY = "ready"
    """Jobs can be claimed. Payload: their queue."""
    CANCEL = "cancel"
    """A worker has something to hear with a heartbeat: runs to cancel, or what an operator asks of it.
    Payload: its id.
    """
    DUE = "due"
    """Jobs were scheduled. Payload: when the first of them is due, if the sender knows."""
    WAKE = "wake"
    """Something has ended or happened that a flow may wait for."""
    GROUP = "group"
    """The leader may have something to do for a group: its members have ended, or are to be cancelled."""
    LEADER = "leader"
    """The workers have changed. Payload: `vacant` if the leader has stepped down, else `unpark`: a worker has
    started, or a queue was resumed, so that parked jobs can be claimed.
    """
    GATE = "gate"
    """Jobs have come to a gate, or permits came back."""
    PLAN = "plan"
    """A schedule has changed. Payload: its name."""

    def in_schema(self, schema: Schema) -> str:
        return f"{schema.name}.{self}"
