"""Reads the text of a traceback as frames, and tells those of the user's own code from those of libraries."""

import re
from dataclasses import dataclass

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_LIBRARIES = re.compile(r"[/\\](?:site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]|^<frozen ")
_OURS = re.compile(r"[/\\]holdfast[/\\](?:worker|flows|producer|postgres|codec|app|job)\b")


@dataclass(frozen=True, slots=True)
class Frame:
    """One call. `is_own`: in the user's own code, neither in a library nor in Holdfast."""

    file: str
    line: int
    function: str
    code: str
    is_own: bool


def frames_of(traceback: str) -> tuple[Frame, ...]:
    """All frames, outermost first, of every exception in the chain."""
    lines = traceback.splitlines()
    found = []
    for index, text in enumerate(lines):
        if match := _FRAME.match(text):
            following = lines[index + 1] if index + 1 < len(lines) else ""
            code = "" if _FRAME.match(following) or not following.startswith("    ") else following.strip()
            found.append(
                Frame(
                    match["file"],
                    int(match["line"]),
                    match["function"] or "<module>",
                    code,
                    is_own=_is_own(match["file"]),
                )
            )
    return tuple(found)


def own_frame(traceback: str) -> Frame | None:
    """The innermost frame of the user's own code in the last exception: where to look first."""
    own = [frame for frame in frames_of(traceback) if frame.is_own]
    return own[-1] if own else None


def _is_own(file: str) -> bool:
    return not (_LIBRARIES.search(file) or _OURS.search(file))
