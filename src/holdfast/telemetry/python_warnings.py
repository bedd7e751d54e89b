"""Python's warnings as lines of the log, with their category and place in place of a text of two lines."""

import logging
import warnings
from typing import TextIO

# The name that Python itself gives them there.
_logger = logging.getLogger("py.warnings")


def log_warnings() -> None:
    """From now on, in this process."""
    warnings.showwarning = _show


def are_warnings_logged() -> bool:
    return warnings.showwarning is _show


def _show(  # noqa: PLR0917  # as warnings calls it
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if file is not None:
        file.write(warnings.formatwarning(message, category, filename, lineno, line))
        return
    facts = {"category": category.__name__, "at": f"{filename}:{lineno}"}
    _logger.warning("%s", message, extra={"holdfast_warning": facts})
