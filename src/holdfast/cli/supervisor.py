"""Several worker processes under one parent, which starts them, hands signals on, and replaces what died."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic

from holdfast.cli.exit_codes import Exit
from holdfast.cli.supervised import DRAIN, FINISHED, HURRY, STARTED, VARIABLE
from holdfast.domain.duration import compact
from holdfast.telemetry.log_lines import say

_log = logging.getLogger("holdfast.supervisor")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The exit code of a process that gets a signal before it handles signals. It has claimed nothing by then.
_INTERRUPTED = (-signal.SIGTERM, -signal.SIGINT, Exit.INTERRUPTED)
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_SOUND_SECONDS = 60.0


class Place:
    """One of the worker processes, and then the one that comes after it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._line: socket.socket | None = None
        self.pid: int | None = None
        self.started = asyncio.Event()
        self.has_finished = False

    async def live(self) -> int:
        """Start a process, and answer how it ended. Leaving early closes the line, and the process drains."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        self.has_finished = False
        with ours:
            self._line = ours
            with theirs:
                # A process group of its own: Ctrl-C reaches only the supervisor, who hands it on in order.
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    env={**os.environ, VARIABLE: str(theirs.fileno())},
                    pass_fds=(theirs.fileno(),),
                    process_group=0,
                )
            self.pid = process.pid
            loop.add_reader(ours, self._hear, ours)
            try:
                # Not until the line is closed: a fork of the process may hold it open forever.
                return await process.wait()
            finally:
                self._hear(ours)
                loop.remove_reader(ours)

    def tell(self, order: bytes) -> None:
        if self._line is not None:
            with suppress(OSError):
                self._line.send(order)

    def _hear(self, line: socket.socket) -> None:
        try:
            words = line.recv(16)
        except BlockingIOError:
            return
        except ConnectionError:
            words = b""
        if not words:
            asyncio.get_running_loop().remove_reader(line)
        if STARTED in words:
            self.started.set()
        if FINISHED in words:
            self.has_finished = True


class Supervisor:
    """The first process goes ahead: what it cannot do at all, such as import the app or reach the database,
    ends everything at once, with one message and not one for each process. From when it is up there are as
    many processes as were asked for, until the supervisor is told to end.
    """

    def __init__(self, command: Sequence[str], processes: int) -> None:
        self._places = [Place(command) for _ in range(processes)]
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """Until all processes have ended as they should; answers the exit code for the whole."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._ask)
        async with asyncio.TaskGroup() as group:
            first, *others = self._places
            keeping = [group.create_task(self._keep(first))]
            starting = group.create_task(first.started.wait())
            await asyncio.wait([*keeping, starting], return_when=asyncio.FIRST_COMPLETED)
            starting.cancel()
            if first.started.is_set():
                keeping += [group.create_task(self._keep(place)) for place in others]
        codes = [task.result() for task in keeping]
        return next((code if code > 0 else Exit.FAILED for code in codes if code), Exit.OK)

    def _ask(self) -> None:
        order = HURRY if self._stopping.is_set() else DRAIN
        self._stopping.set()
        for place in self._places:
            place.tell(order)

    async def _keep(self, place: Place) -> int:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            began = monotonic()
            code = await place.live()
            if self._stopping.is_set():
                return Exit.OK if code in _INTERRUPTED else code
            if place.has_finished and code == Exit.OK:
                return code
            if self._is_hopeless(code):
                return code
            if monotonic() - began >= _SOUND_SECONDS:
                pause = _FIRST_PAUSE
            say(
                _log,
                logging.WARNING,
                f"worker process {'died' if code else 'ended unasked'}, starting another",
                pid=place.pid,
                by=_cause(code),
                after=compact(timedelta(seconds=pause)),
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(pause * 2, _LONGEST_PAUSE)
        return Exit.OK

    def _is_hopeless(self, code: int) -> bool:
        """Whether no process could start so far, and this one has failed by itself: being killed, such as
        for want of memory, or told to end says nothing about the next one.
        """
        return not self._places[0].started.is_set() and code > 0 and code != Exit.INTERRUPTED


def _cause(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"
