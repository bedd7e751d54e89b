"""Files that other processes are writing to while a test reads them."""

from pathlib import Path


def whole_lines(path: Path) -> str:
    """What was written so far, without a last line of which only a part can be seen yet."""
    text = path.read_text("utf-8")
    return text[: text.rfind("\n") + 1]
