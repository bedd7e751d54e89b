"""Writes an app's events: on the connection that a job would be written on, and typed ones by their name."""

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.app_connections import AppConnections
from holdfast.domain.duration import Length, duration
from holdfast.errors import InvalidInput
from holdfast.flows.events import Event
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.flows import emit

T = TypeVar("T")


class EventWriter:
    """`connection_for` is the caller's connection, or None for one of the app's."""

    def __init__(
        self, schema: Schema, connections: AppConnections, connection_for: Callable[[object], object]
    ) -> None:
        self._schema = schema
        self._connections = connections
        self._connection_for = connection_for
        self._events: dict[str, Event[Any]] = {}

    def typed(self, name: str, hint: type[T]) -> Event[T]:
        event = Event[T](name, hint, self.write, self.write_sync)
        known = self._events.setdefault(name, event)
        if known.typed.hint != hint:
            raise InvalidInput(
                f'event "{name}" is of type {known.typed.type_name} already, and cannot be of type '
                f"{event.typed.type_name} too: give one of them another name"
            )
        return known

    async def write(self, event: str, text: str | None, conn: object, keep: Length) -> None:
        """`text` is the payload as JSON."""
        statement = self._statement(event, text, keep)
        conn = self._connection_for(conn)
        if conn is not None:
            await run_on(conn, statement)
        else:
            await (await self._connections.opened()).database.run(statement)

    def write_sync(self, event: str, text: str | None, conn: object, keep: Length) -> None:
        statement = self._statement(event, text, keep)
        conn = self._connection_for(conn)
        if conn is not None:
            run_on_blocking(conn, statement)
        else:
            self._connections.opened_blocking().database.run(statement)

    def _statement(self, event: str, text: str | None, keep: Length) -> Statement[int]:
        return emit(self._schema, [(event, text)], notify=True, keep=duration(keep, name="keep"))
