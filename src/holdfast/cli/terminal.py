"""What is known of the terminal, and the console that draws on it. rich takes a tenth of a second to import:
only what draws asks for it.
"""

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console

# C0 without the newline, DEL, and C1: text of a job must not steer the terminal of who looks at it.
_CONTROLS = {n: f"\\x{n:02x}" for n in (*range(0x20), *range(0x7F, 0xA0))} | {
    ord("\t"): "    ",
    ord("\n"): " ",
}


def is_terminal(stream: TextIO | None = None) -> bool:
    return (sys.stdout if stream is None else stream).isatty()


def terminal_width() -> int | None:
    """None when the output is not a terminal: then nothing is cut."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def is_coloured() -> bool:
    """Whether the user lets us: --no-color and NO_COLOR have set click's own flag."""
    context = click.get_current_context(silent=True)
    return context is None or context.color is not False


def console(*, stderr: bool = False) -> "Console":
    """Draws what it is given as it is: no markup, no emoji codes, no guesses about numbers and quotes."""
    from rich.console import Console

    return Console(
        file=sys.stderr if stderr else sys.stdout,
        color_system="auto" if is_coloured() else None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def in_lines(text: str, *, behind: str = "") -> list[str]:
    """As wide as the terminal, broken between words; `behind` stands in front of every line but the first.
    One line when the output is not a terminal.
    """
    width = terminal_width()
    if width is None or len(text) <= width:
        return [text]
    return textwrap.wrap(
        text, width, subsequent_indent=behind, break_on_hyphens=False, drop_whitespace=True
    ) or [text]


def visible(text: str) -> str:
    """One line, with control characters spelled out."""
    return text if text.isprintable() else text.translate(_CONTROLS)
