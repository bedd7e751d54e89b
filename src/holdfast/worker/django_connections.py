"""Django's database connections, closed around an attempt as Django itself closes them around a request.
Found by itself: Django is never imported here, and where it is not loaded nothing is done.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from holdfast.worker.callers import Caller
    from holdfast.worker.claimed_run import ClaimedRun
    from holdfast.worker.context import Context

T = TypeVar("T")

_log = logging.getLogger("holdfast.worker")


def is_loaded() -> bool:
    """Whether there are connections to care for: Django's settings have been read."""
    if "django.db" not in sys.modules:
        return False
    settings = getattr(sys.modules.get("django.conf"), "settings", None)
    return bool(getattr(settings, "configured", False))


def close_old() -> None:
    """Those of this thread that are broken, or older than CONN_MAX_AGE, which is 0 unless it is set. What
    cannot be closed must not fail a job.
    """
    close = getattr(sys.modules.get("django.db"), "close_old_connections", None)
    if close is not None and is_loaded():
        try:
            close()
        except Exception:  # noqa: BLE001  # reported
            _log.exception("Django's connections could not be closed")


def close_all() -> None:
    """Those of this thread, which is about to end. Django forgets them then without closing them, and the
    garbage collector closes them some time, or never.
    """
    connections = getattr(sys.modules.get("django.db"), "connections", None)
    if connections is not None and is_loaded():
        try:
            connections.close_all()
        except Exception:  # noqa: BLE001  # no job is hurt
            _log.debug("Django's connections could not be closed at the end of a thread", exc_info=True)


def closed_after(function: Callable[[], T]) -> T:
    """Call it in a thread that is not ours, and that may not be used again for a long time."""
    try:
        return function()
    finally:
        close_all()


class fresh:  # noqa: N801  # reads as a word: with fresh()
    """Around a call in the thread that makes it. A class, in a third of a generator's time: every plain
    function comes by here.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        if "django.db" in sys.modules:
            close_old()

    def __exit__(self, *_: object) -> None:
        if "django.db" in sys.modules:
            close_old()


class AroundCoroutines:
    """A caller whose coroutines may use Django's async ORM, which works in one thread for all of them. There
    the connections are closed after each attempt, without making it wait: one asked for is enough for all
    that ended until then.
    """

    def __init__(self, caller: "Caller") -> None:
        self._caller = caller
        self._closing: asyncio.Task[None] | None = None

    async def call(self, claimed: "ClaimedRun", context: "Context", arguments: dict[str, Any]) -> Any:
        try:
            return await self._caller.call(claimed, context, arguments)
        finally:
            if self._closing is None and is_loaded():
                self._closing = asyncio.create_task(self._close())

    def left_behind(self, claimed: "ClaimedRun") -> "Future[Any] | None":
        return self._caller.left_behind(claimed)

    async def _close(self) -> None:
        await asyncio.sleep(0)
        self._closing = None
        await close_old_in_sync_thread()


async def close_old_in_sync_thread() -> None:
    """Where Django runs what its coroutines call."""
    if is_loaded():
        from asgiref.sync import sync_to_async

        await sync_to_async(close_old)()
