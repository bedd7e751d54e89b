"""How states look, the same in every list: an icon and a word, and on a terminal a colour that says no more
than they do. The sixteen colours of the terminal's own theme, so that they are legible on dark and on light.
"""

from typing import Literal, Self, assert_never, get_args

from holdfast.domain.states import RunOutcome
from holdfast.flows.records import StepState

Shown = Literal[StepState, "retrying", "paused", "live", "silent", "stopped"]
"""Every state of a job or a step, and what else has a look: a job that will be tried again, a queue or a
schedule that is paused, a worker, an operation.
"""
_SHOWN: tuple[Shown, ...] = get_args(Shown)


class Cell(str):
    """A text for people that has a style on a terminal, and may be a shorter text there."""

    __slots__ = ("on_terminal", "style")

    style: str
    on_terminal: str

    def __new__(cls, text: str, style: str = "", on_terminal: str | None = None) -> Self:
        made = super().__new__(cls, text)
        made.style = style
        made.on_terminal = text if on_terminal is None else on_terminal
        return made


def marked(state: Shown, more: str = "") -> Cell:
    """`✓ succeeded`; `more` follows the word."""
    icon, style = look(state)
    return Cell(f"{icon} {state}{more}", style)


def outcome_of(outcome: RunOutcome) -> Cell:
    """The word alone, in the colour of the state that it led to."""
    match outcome:
        case "retried" | "snoozed" | "released":
            return Cell(outcome, "yellow")
        case _:
            return Cell(outcome, look(outcome)[1])


def look(state: Shown) -> tuple[str, str]:  # noqa: C901, PLR0911, PLR0912  # a return for each look
    """Its icon, and its style on a terminal."""
    if state not in _SHOWN:
        return "?", ""  # newer code has written it
    match state:
        case "scheduled":
            return "◷", "magenta"
        case "ready":
            return "○", ""
        case "gated":
            return "⊟", "magenta"
        case "running":
            return "◔", "blue"
        case "waiting":
            return "⏸", "cyan"
        case "retrying":
            return "↻", "yellow"
        case "succeeded" | "done":
            return "✓", "green"
        case "failed" | "lost":
            return "✕", "red"
        case "cancelled" | "expired" | "stopped":
            return "⊘", "dim"
        case "paused":
            return "‖", "magenta"
        case "live":
            return "●", "green"
        case "silent":
            return "◌", "yellow"
        case "unknown":
            return "?", "yellow"
        case _:
            assert_never(state)
