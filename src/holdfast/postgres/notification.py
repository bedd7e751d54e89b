"""LISTEN/NOTIFY messages: names of channels, what a subscriber receives, and how to send."""

from dataclasses import dataclass

from holdfast.errors import InvalidInput
from holdfast.postgres.statement import Statement

_LONGEST_NAME = 63  # bytes; LISTEN would cut a longer one short, and pg_notify refuse it
_LONGEST_PAYLOAD = 7999


@dataclass(frozen=True, slots=True)
class Notified:
    """A notification that arrived."""

    channel: str
    payload: str


@dataclass(frozen=True, slots=True)
class Gap:
    """From here on notifications arrive; earlier ones may have been missed, so look for yourself."""

    channel: str


def channel_name(name: str) -> str:
    """The name itself, if Postgres can carry it unchanged as an identifier and as a value."""
    length = _length(name)
    if length is None or not 1 <= length <= _LONGEST_NAME:
        raise InvalidInput(f"{name!r} cannot name a channel: use 1 to {_LONGEST_NAME} bytes of text, no NUL")
    return name


def notify(channel: str, payload: str = "") -> Statement[None]:
    """Wake the listeners when the transaction commits. Both values travel as parameters, never as text."""
    length = _length(payload)
    if length is None or length > _LONGEST_PAYLOAD:
        raise InvalidInput(f"a payload is at most {_LONGEST_PAYLOAD} bytes of text, no NUL")
    return Statement(
        "notify",
        "select pg_catalog.pg_notify(%(channel)s::text, %(payload)s::text)",
        {"channel": channel_name(channel), "payload": payload},
        _nothing,
    )


def _length(text: str) -> int | None:
    """In bytes; None for text that Postgres cannot hold."""
    try:
        return len(text.encode()) if "\0" not in text else None
    except UnicodeEncodeError:
        return None


def _nothing(_: object) -> None:
    return None
