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
    """Running jobs are to be cancelled. Payload: the id of their worker."""
    DUE = "due"
    """Jobs were scheduled. Payload: when the first of them is due, if the sender knows."""
    WAKE = "wake"
    """Something has ended or happened that a flow may wait for."""
    LEADER = "leader"
    """The workers have changed. Payload: `vacant` if the leader has stepped down, else `unpark`: a worker has
    started, or a queue was resumed, so that parked jobs can be claimed.
    """
    PLAN = "plan"
    """A schedule has changed. Payload: its name."""

    def in_schema(self, schema: Schema) -> str:
        return f"{schema.name}.{self}"
