"""Several worker processes under one parent, which starts them, hands signals on, and replaces what died."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from time import monotonic

from holdfast.cli.exit_codes import Exit
from holdfast.cli.service_notifier import READY, STOPPING, ServiceNotifier
from holdfast.cli.supervised import (
    BROKEN,
    DRAIN,
    FINISHED,
    HURRY,
    PRIVATE,
    STARTED,
    STOPPED,
    VARIABLE,
)
from holdfast.domain.duration import compact
from holdfast.metrics.fleet import Fleet
from holdfast.metrics.report_line import VARIABLE as REPORT_VARIABLE
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

    def __init__(
        self, command: Sequence[str], *, has_own_group: bool = True, fleet: Fleet | None = None
    ) -> None:
        """It reports its metrics to the `fleet`."""
        self._command = command
        self._fleet = fleet
        # Of its own: Ctrl-C reaches only the supervisor, who hands it on in order. In the supervisor's group
        # it reaches both, and a handler may read from the terminal, as a debugger does.
        self._group = 0 if has_own_group else None
        self._line: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self.pid: int | None = None
        self.started = asyncio.Event()
        self.has_finished = False
        self.was_asked_to_stop = False
        self.is_broken = False
        self.is_on_private_server = False

    async def live(self) -> int:
        """Start a process, and answer how it ended. Leaving early closes the line, and the process drains."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        self.has_finished = False
        with ours, ExitStack() as stack:
            self._line = ours
            with theirs, self._reporting(stack) as (joined, reports):
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    env={**os.environ, VARIABLE: str(theirs.fileno()), **reports},
                    pass_fds=(theirs.fileno(), *map(int, reports.values())),
                    process_group=self._group,
                )
            self.pid = process.pid
            joined(process.pid)
            self._process = process
            loop.add_reader(ours, self._hear, ours)
            try:
                # Not until the line is closed: a fork of the process may hold it open forever.
                return await process.wait()
            finally:
                self._hear(ours)
                loop.remove_reader(ours)

    @contextmanager
    def _reporting(self, stack: ExitStack) -> Iterator[tuple[Callable[[int], None], dict[str, str]]]:
        """The process's end of a line for its metrics is open in the block, ours for as long as the stack."""
        if self._fleet is None:
            yield (lambda _: None), {}
            return
        fleet = self._fleet
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        ours.setblocking(False)

        def join(pid: int) -> None:
            receiver = fleet.join(ours, pid)
            loop = asyncio.get_running_loop()

            def hear() -> None:
                if not receiver.hear():
                    loop.remove_reader(ours)

            loop.add_reader(ours, hear)
            stack.callback(fleet.leave, receiver)
            stack.callback(loop.remove_reader, ours)

        with theirs:
            yield join, {REPORT_VARIABLE: str(theirs.fileno())}

    def tell(self, order: bytes) -> None:
        if self._line is not None:
            with suppress(OSError):
                self._line.send(order)

    def send(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

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
        if STOPPED in words:
            self.was_asked_to_stop = True
        if BROKEN in words:
            self.is_broken = True
        if PRIVATE in words:
            self.is_on_private_server = True


class Supervisor:
    """The first process goes ahead: what it cannot do at all, such as import the app or reach the database,
    ends everything at once, with one message and not one for each process. From when it is up there are as
    many processes as were asked for, until the supervisor is told to end; one fewer for each that an operator
    has stopped. When the last one is stopped, the supervisor ends.
    """

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        fleet: Fleet | None = None,
        notifier: ServiceNotifier | None = None,
    ) -> None:
        self._notifier = notifier or ServiceNotifier()
        self._places = [Place(command, fleet=fleet) for _ in range(processes)]
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
                self._notifier.say(READY)
                keeping += [group.create_task(self._keep(place)) for place in others]
        codes = [task.result() for task in keeping]
        return next((code if code > 0 else Exit.FAILED for code in codes if code), Exit.OK)

    def _ask(self) -> None:
        order = HURRY if self._stopping.is_set() else DRAIN
        self._stopping.set()
        self._notifier.say(STOPPING)
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
            if place.was_asked_to_stop:
                say(
                    _log,
                    logging.INFO,
                    "worker process stopped as an operator asked: it is not replaced",
                    pid=place.pid,
                )
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
                by=ended_by(code),
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


def ended_by(code: int) -> str:
    """A signal, or an exit code."""
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"
