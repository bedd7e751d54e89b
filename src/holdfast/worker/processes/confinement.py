"""What a child does to itself, so that it ends with its worker, and not with the worker's terminal or for
its memory.
"""

import ctypes
import fcntl
import logging
import logging.handlers
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from holdfast.errors import InvalidInput
from holdfast.worker.current_run import current_run, log_facts

_PR_SET_PDEATHSIG = 1
_M_ARENA_MAX = -8
_POLITE = (signal.SIGINT, signal.SIGTERM)
_MIB = 1024 * 1024
_ROOM = 64 * _MIB


def die_with(parent: int, lifeline: int) -> None:
    """Nothing of us outlives the worker, even if a handler holds the interpreter for ever. `lifeline` is a
    pipe that only the worker can write to: when it hangs up, Linux itself kills our process group, and with
    it what handlers have started. Only where that cannot be had, Linux kills us alone; elsewhere the end of
    the connection has to do.

    Never both: the worker's threads die one by one, and Linux takes the end of the one that started us for
    our parent's, before the last one closes the files. Killed by the first, we would not be there to hear
    the second.
    """
    os.set_inheritable(lifeline, False)  # noqa: FBT003  # its only form
    if sys.platform == "linux":
        try:
            fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
        except OSError:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or _has_hung_up(lifeline):  # it died before we had asked
        os._exit(1)


def _has_hung_up(lifeline: int) -> bool:
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    return bool(poll.poll(0))


def die() -> NoReturn:
    """At once, with all that handlers have started."""
    try:
        os.killpg(os.getpgrp(), signal.SIGKILL)
    finally:
        os._exit(1)


def leave_signals_to_the_worker() -> None:
    """A service manager signals every process of a service, but only the worker knows how to drain.
    Handlers that do nothing in place of SIG_IGN, which programs started from here would inherit. Those
    forked from here get the usual ones back, and no signal may come in between.
    """
    for number in _POLITE:
        signal.signal(number, lambda *_: None)

    def in_fork() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _POLITE)

    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, _POLITE),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _POLITE),
        after_in_child=in_fork,
    )


def spare_address_space() -> None:
    """The C library would reserve 64 MiB of addresses for each thread, which counts against a limit without
    being memory.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, 1)


def address_space() -> int | None:
    """How many bytes of addresses this process has taken; None where the system cannot tell or limit it."""
    if sys.platform != "linux":
        return None
    return int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()


def too_little_memory(limit: int | None, bare: int | None) -> InvalidInput | None:
    """Under a limit that is reached before it begins, a handler meets errors that tell nothing of it. `bare`
    is what this process had taken before it imported the handler's module.
    """
    if limit is None or bare is None:
        return None
    taken = address_space()
    if taken is None or taken < limit:
        return None
    enough = (taken + _ROOM) // _ROOM * _ROOM + _ROOM
    return InvalidInput(
        f"memory_limit is {_in_mib(limit)}, but a child process takes {_in_mib(bare)} of addresses before it "
        f"imports the handler's module, and {_in_mib(taken)} then: write more, such as "
        f"memory_limit={enough // _MIB} * 2**20"
    )


def _in_mib(size: int) -> str:
    return f"{size / _MIB:.0f} MiB"


@contextmanager
def limited_memory(limit: int | None) -> Iterator[None]:
    """Only the soft limit, and only while the handler runs: there must be room to tell how it ended."""
    if limit is None or sys.platform == "darwin":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class _ToWorker(logging.handlers.QueueHandler):
    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # `enqueue` below is all that uses it
        self._send = send

    def enqueue(self, record: logging.LogRecord) -> None:
        """With the job that it was written in, which only the child can tell."""
        claimed = current_run.get(None)
        self._send({**(log_facts(claimed) if claimed else {}), **record.__dict__})


def log_through(send: Callable[[dict[str, Any]], None], levels: dict[str, int]) -> None:
    """Records are written by the worker, in its format. A module that configures logging for itself keeps
    its way.
    """
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.getLogger().addHandler(_ToWorker(send))
