"""What operators may ask of a running worker, decided from what it does and what it was asked before."""

from dataclasses import dataclass
from typing import Literal

Activity = Literal["working", "quiet", "stopping"]
"""What a worker says that it does."""

AskedActivity = Literal["quiet", "stop", "hurry"]
"""What a worker is asked to do, unless it is to work. `hurry`: to stop, and to release what runs at once."""

Wanted = Literal["work", "slots"] | AskedActivity


@dataclass(frozen=True, slots=True)
class Standing:
    """`activity` is None of a worker that is too old to be asked anything."""

    activity: Activity | None
    asked: AskedActivity | None
    is_lost: bool

    @property
    def is_stopping(self) -> bool:
        return self.activity == "stopping" or self.asked in ("stop", "hurry")


def why_not(wanted: Wanted, standing: Standing) -> str | None:
    """Why a worker cannot be asked for this; None if it can."""
    if standing.is_lost:
        return (
            "it is lost, and other workers run its jobs; if its process lives, it is a worker of another id"
        )
    if standing.activity is None:
        return "its release of Holdfast cannot be asked: send its process a signal instead"
    if wanted == "hurry":
        return "it is stopping at once already" if standing.asked == "hurry" else None
    if standing.is_stopping:
        more = "; stop it now to release its jobs at once" if wanted == "stop" else ""
        return f"it is stopping already{more}"
    return None
