"""Warnings that name a line of the user's code. Python shows each of them once for each line."""

import asyncio
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from holdfast.errors import BlocksEventLoop

_OURS = str(Path(__file__).parents[1])


def warn_at_call_site(
    message: str, category: type[Warning], *, otherwise: Callable[..., Any] | None = None
) -> None:
    """Warn at the nearest line that is neither Holdfast's nor the event loop's. A coroutine of Holdfast's
    that was made a task has no such line: then at `otherwise`, a function of the user's.
    """
    frame = _call_site()
    if frame is not None:
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        module = str(frame.f_globals.get("__name__", "__main__"))
        place = frame.f_code.co_filename, frame.f_lineno
    else:
        code = getattr(otherwise, "__code__", None)
        registry, module = _registry, getattr(otherwise, "__module__", __name__)
        place = (code.co_filename, code.co_firstlineno) if code else ("holdfast", 1)
    warnings.warn_explicit(message, category, *place, module=module, registry=registry)


_registry: dict[Any, Any] = {}


def _call_site() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  # as warnings does
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    if frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] == "asyncio":
        return None
    return frame


def warn_on_a_loop() -> None:
    """A blocking verb stops every task of the event loop until Postgres has answered."""
    if asyncio._get_running_loop() is None:  # noqa: SLF001  # asking without an exception, as asyncio does
        return
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # as above
    verb = "a verb that ends in _sync"
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        verb, frame = frame.f_code.co_name, frame.f_back
    warn_at_call_site(
        f"{verb}() stops the event loop of this thread, and every task in it, until Postgres has answered: "
        f"await {verb.removesuffix('_sync')}(), or call it in a thread with asyncio.to_thread",
        BlocksEventLoop,
    )
