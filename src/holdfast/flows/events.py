"""Events. `app.event` gives one type to emitters and waiting flows. A plain key has no type when it is
emitted: a waiting flow refuses a payload that does not fit, and waits for another.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar

from holdfast.codec.storable_types import problem_with
from holdfast.domain.duration import Length
from holdfast.domain.failure import Failure
from holdfast.domain.job import check_key
from holdfast.domain.retention import EVENTS
from holdfast.errors import EventTimeout, InvalidInput
from holdfast.flows.replay import Replay
from holdfast.flows.step_values import StoredUndecodable, Typed

T = TypeVar("T")

Send = Callable[[str, str | None, object, Length], Awaitable[None]]
SendSync = Callable[[str, str | None, object, Length], None]
"""Take the event's key, its payload as JSON text, the caller's connection and how long it is kept."""

_MOST_REFUSALS = 30_000


class Event(Generic[T]):
    """Made by `app.event(name, type)`. Its payloads are of one type: another is refused by `emit`, and
    `await flow.wait(event, key)` gives it. In SQL and on the command line its key is `name:key`.
    """

    def __init__(self, name: str, hint: Any, send: Send, send_sync: SendSync) -> None:
        check_key(name, what="event")
        if ":" in name:
            raise InvalidInput(f'event "{name}" has a colon in its name: what comes after it is its key')
        if problem := problem_with(hint):
            raise InvalidInput(f'event "{name}": {problem}')
        self.name = name
        self.typed = Typed.of(hint)
        self._send = send
        self._send_sync = send_sync

    def __repr__(self) -> str:
        return f"<Event {self.name}>"

    def full_key(self, key: object) -> str:
        """The key for `app.emit` and `flow.wait_event`."""
        if key is None or key == "":
            raise InvalidInput(f'event "{self.name}" needs a key: what it is about, such as an order')
        full = f"{self.name}:{key}"
        check_key(full, what="event")
        return full

    async def emit(self, key: object, value: T, *, conn: object = None, keep: Length = EVENTS) -> None:
        """Send the event: flows that wait for it under this key continue, or the first flow that asks for it
        within `keep`. On `conn`'s transaction if one is given.
        """
        full = self.full_key(key)
        await self._send(full, self._text(full, value), conn, keep)

    def emit_sync(self, key: object, value: T, *, conn: object = None, keep: Length = EVENTS) -> None:
        """The same, blocking."""
        full = self.full_key(key)
        self._send_sync(full, self._text(full, value), conn, keep)

    def _text(self, full: str, value: T) -> str:
        return self.typed.written(f'the payload of event "{full}"', value)


async def payload_of(
    replay: Replay,
    log: "logging.LoggerAdapter[logging.Logger]",
    event: str,
    name: str,
    *,
    typed: Typed,
    limit: timedelta | None,
) -> Any:
    """What the next event with this key brings that fits. One that does not is kept, to be looked at and to
    be taken by other code, until another comes; a flow that went on with it has another definition now.
    """
    record, place = await replay.arrive(name, "event")
    wait = replay.wait(name, "event", place, delay=limit, key=event)
    refusals = 0 if record is None else record.failures
    is_refused = record is not None and not record.is_done and record.error is not None
    if record is not None and (record.is_done or is_refused):
        text, is_late = record.value, record.is_done and record.error is not None
        is_followed = record.is_done and replay.path.is_followed(place)
    else:
        answer = await replay.wait_until_over(wait)
        text, is_late, is_followed = answer.value, answer.status == "late", False
    while not is_late:
        try:
            payload = typed.decode(f'the payload of event "{event}"', "null" if text is None else text)
        except StoredUndecodable as error:
            if is_followed:
                raise
            reason = f"{error}. Send one that fits: holdfast flows emit {event} JSON"
            log.warning("%s", reason)
            refusals = min(refusals + 1, _MOST_REFUSALS)
            refusal = wait._replace(error=Failure(reason, "decode_error").to_json(), failures=refusals)
            answer = await replay.wait_until_over(refusal)
            text, is_late, is_refused = answer.value, answer.status == "late", False
        else:
            if is_refused:
                await replay.keep(name, "event", text, place, failures=refusals)
            return payload
    raise EventTimeout(event)
