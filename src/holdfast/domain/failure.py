"""What went wrong with a run, cut to a size and to characters that can be stored."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from holdfast.domain.redaction import scrubbed

Code = Literal[
    "handler_error",
    "timeout",
    "lease_lost",
    "stale_timeout",
    "deadline_expired",
    "decode_error",
    "cancelled",
    "superseded",
    "process_died",
    "flow_diverged",
]

MESSAGE_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000
CAUSES_LIMIT = 10


@dataclass(frozen=True, slots=True)
class Failure:
    """A code for programs, a message and a traceback for people, and the causes behind it. Cut when it is
    made: a handler may put a whole file into its message, and the log shows the message, too.
    `fingerprint` and `frame` say which group of failures it belongs to: `fingerprint.identified` adds them.
    """

    message: str
    code: Code | Literal[""] = "handler_error"
    type: str | None = None
    traceback: str | None = None
    causes: tuple[str, ...] = field(default=())
    fingerprint: str | None = field(default=None, compare=False)
    frame: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Cuts between characters. Keeps the end of a traceback, which names the error."""
        if len(self.message) > MESSAGE_LIMIT:
            object.__setattr__(self, "message", self.message[:MESSAGE_LIMIT])
        if self.traceback and len(self.traceback) > TRACEBACK_LIMIT:
            object.__setattr__(self, "traceback", self.traceback[-TRACEBACK_LIMIT:])
        if self.causes:
            object.__setattr__(
                self, "causes", tuple(cause[:MESSAGE_LIMIT] for cause in self.causes[:CAUSES_LIMIT])
            )

    def without(self, secrets: Sequence[str]) -> "Failure":
        """The same, with a mask wherever it quotes one of these texts."""
        if not secrets:
            return self
        return replace(
            self,
            message=scrubbed(self.message, secrets),
            traceback=self.traceback and scrubbed(self.traceback, secrets),
            causes=tuple(scrubbed(cause, secrets) for cause in self.causes),
        )

    def to_json(self) -> str:
        message = storable(self.message)
        stored: dict[str, object] = {"code": self.code or "handler_error", "message": message}
        if self.type:
            stored["type"] = storable(self.type)[:200]
        if self.traceback:
            stored["traceback"] = storable(self.traceback)
        if self.causes:
            stored["causes"] = [storable(cause) for cause in self.causes]
        if self.fingerprint:
            stored["fingerprint"] = self.fingerprint
        if self.frame:
            stored["frame"] = storable(self.frame)
        return json.dumps(stored, ensure_ascii=False)


def storable(text: str) -> str:
    """Text that Postgres takes: no NUL, no half of a surrogate pair. One bad message must fail no batch."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def recorded_error(text: str | None) -> dict[str, Any]:
    """A stored failure as a dict. One that was damaged by hand says so."""
    error = json.loads(text or "{}")
    if isinstance(error, dict):
        return error
    return {
        "code": "handler_error",
        "message": "the recorded error is damaged: it is not a JSON object",
    }
