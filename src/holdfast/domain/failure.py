"""What went wrong with a run, bounded and fit to be stored whatever the handler raised."""

import json
from dataclasses import dataclass, field
from typing import Literal

Code = Literal[
    "handler_error",
    "timeout",
    "lease_lost",
    "stale_timeout",
    "deadline_expired",
    "decode_error",
    "cancelled",
    "process_died",
    "flow_diverged",
]

MESSAGE_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000


@dataclass(frozen=True, slots=True)
class Failure:
    """A code for programs, a message and a traceback for people, the causes behind it."""

    message: str
    code: Code | Literal[""] = "handler_error"
    type: str | None = None
    traceback: str | None = None
    causes: tuple[str, ...] = field(default=())

    def to_json(self) -> str:
        """Cut at a character, never inside one; the end of a traceback is the part that tells."""
        message = storable(self.message)[:MESSAGE_LIMIT]
        stored: dict[str, object] = {"code": self.code or "handler_error", "message": message}
        if self.type:
            stored["type"] = storable(self.type)[:200]
        if self.traceback:
            stored["traceback"] = storable(self.traceback)[-TRACEBACK_LIMIT:]
        if self.causes:
            stored["causes"] = [storable(cause)[:MESSAGE_LIMIT] for cause in self.causes[:10]]
        return json.dumps(stored, ensure_ascii=False)


def storable(text: str) -> str:
    """Text that Postgres takes: no NUL, no half of a surrogate pair. One bad message must fail no batch."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
