"""What happened, in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from demo.picture import Event


@dataclass(frozen=True, slots=True)
class Line:
    at: str
    word: str
    about: str
    what: str

    @property
    def plain(self) -> str:
        return f"{self.at}  {self.word:<9}  {self.about}: {self.what}"


def told(events: Sequence[Event]) -> list[Line]:
    """Oldest first. Jobs that were rescued together share a line."""
    lines: list[Line] = []
    in_order = sorted(events, key=lambda event: (event.after, event.is_rescue, event.run))
    for (after, is_rescue), group in groupby(in_order, lambda event: (event.after, event.is_rescue)):
        together = list(group)
        if is_rescue:
            lines.append(_rescued(clock(after), together))
        else:
            lines += [Line(clock(after), *_words(event)) for event in together]
    return lines


def _rescued(at: str, events: Sequence[Event]) -> Line:
    jobs = ", ".join(f"{event.kind} {event.order_id}" for event in events)
    return Line(at, "rescued", "1 job" if len(events) == 1 else f"{len(events)} jobs", f"run again: {jobs}")


def _words(event: Event) -> tuple[str, str, str]:
    about = f"{event.kind}, order {event.order_id}"
    tries = f"attempt {event.attempt} of {event.max_attempts}"
    match event.outcome:
        case "lost":
            return "lost", f"process {event.worker}", "a worker is silent: others take over what it ran"
        case "retried" if event.code == "lease_lost":
            return "resumed", about, f'its step "{event.done}" is stored; continues with the next one'
        case "retried":
            return "retried", about, f"{event.message}; {tries} failed, runs again"
        case "caught_up":
            return (
                "caught up",
                f"schedule {event.kind}",
                f"planned for {event.message}, when no worker ran",
            )
        case "snoozed":
            return "snoozed", about, "sold out; looks again every 2 s, at no cost"
        case _:
            return "dead", about, f"{event.message}; {tries} failed, needs you"


def clock(length: timedelta) -> str:
    minutes, seconds = divmod(int(length.total_seconds()), 60)
    return f"{minutes}:{seconds:02}"
