"""One child process as the worker sees it, from its start until it is reaped."""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import ProcessDied
from holdfast.telemetry.python_warnings import are_warnings_logged
from holdfast.worker.claimed_run import Stop
from holdfast.worker.processes import lifelines
from holdfast.worker.processes.messages import (
    ChildSettings,
    Ended,
    Frames,
    Logged,
    Progress,
    ProgressTaken,
    StopCall,
    ToChild,
    ToWorker,
    framed,
    framed_body,
)

if TYPE_CHECKING:
    from holdfast.worker.processes.call import Call

_log = logging.getLogger("holdfast.worker")

# Between two words of a run's progress: more is not worth the worker's time.
_PROGRESS_SECONDS = 0.1
# Death by SIGKILL takes milliseconds, unless the child is stuck in a device driver.
DEATH_SECONDS = 5.0
# How long the last words of a dead child may take, or the death of one that has closed its connection.
_PARTING_SECONDS = 1.0

# The search path goes first, as Holdfast itself may lie on it.
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from holdfast.worker.processes.child_main import main; main()"
)

ChildAnswer = Ended | Exception
T = TypeVar("T")


class ChildProcess(asyncio.Protocol):
    """Started as a new Python interpreter: about half a second once for each child, nearly all of it imports.
    A fork server that has imported everything takes 8 ms, but it would have to import the user's modules as
    well, and a fork copies what these have opened or started, such as threads and connections: just the
    trouble that users of isolation want to avoid.
    """

    def __init__(
        self,
        memory_limit: int | None,
        calls: int,
        hear: Callable[["ChildProcess", ToWorker], None],
    ) -> None:
        """`calls` is the file from which it takes its calls; `hear` gets what it says of them."""
        self.memory_limit = memory_limit
        # The call that it runs, and how many it has taken, as far as it has said.
        self.call: Call | None = None
        self.taken = 0
        self.has_left = False
        self.was_killed = False
        self.gone = asyncio.Event()
        self.end: ChildAnswer = ProcessDied(-signal.SIGKILL)
        self._calls = calls
        self._tell = hear
        self._loop = asyncio.get_running_loop()
        self._process: asyncio.subprocess.Process | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._frames = Frames()
        # Set when the connection has ended, and with it what the child had to say.
        self._is_silent = asyncio.Event()
        self._is_condemned = False

    def tell_to_stop(self, call: int, reason: Stop) -> None:
        self._send(StopCall(call, reason))

    def send_body(self, body: bytes) -> None:
        """A call that is too large for the queue."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(framed_body(body))

    def kill(self) -> None:
        """Kill the child and every process it has started, except those in a session of their own."""
        self._is_condemned = self.was_killed = True
        if self._process is not None and self._process.returncode is None:
            self._kill_group(self._process.pid)

    async def tend(self) -> None:
        """Run the child until it ends. Never raises: the worker must not go down with a child."""
        try:
            self.end = ProcessDied(await self._lived())
        except Exception as error:  # noqa: BLE001  # it becomes the end of an attempt
            error.add_note("A child process could not be started.")
            self.end = error
        finally:
            self.gone.set()

    async def _lived(self) -> int:
        """Started on the event loop's own thread: should a child have to make do without its lifeline, that
        is the thread whose end Linux takes for our death.
        """
        ours, theirs = socket.socketpair()
        their_lifeline, our_lifeline = os.pipe()
        with ExitStack() as kept, ExitStack() as inherited:
            kept.callback(lifelines.end, our_lifeline)
            lifelines.hold(our_lifeline)
            inherited.callback(os.close, their_lifeline)
            inherited.callback(theirs.close)
            transport = await self._connected(ours)
            kept.callback(transport.close)
            files = their_lifeline, theirs.fileno(), self._calls
            process = self._process = await asyncio.create_subprocess_exec(
                *_command(*files), stdin=subprocess.DEVNULL, pass_fds=files, start_new_session=True
            )
            inherited.close()
            transport.write(
                framed(ChildSettings(sys.argv, _levels(), are_warnings_logged(), self.memory_limit))
            )
            self._transport = transport
            return await self._ended(process)

    async def _connected(self, ours: socket.socket) -> asyncio.WriteTransport:
        try:
            transport, _ = await self._loop.create_unix_connection(lambda: self, sock=ours)
        except BaseException:
            ours.close()
            raise
        return transport

    async def _ended(self, process: asyncio.subprocess.Process) -> int:
        try:
            if self._is_condemned:
                self.kill()
            return await process.wait()
        finally:
            # Processes that the child has started are killed with it. If there are none, its process group is
            # gone, and its number is free; but the system does not give out a number again so soon.
            self._is_condemned = True
            self._kill_group(process.pid)
            with suppress(TimeoutError):
                async with asyncio.timeout(DEATH_SECONDS):
                    await process.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PARTING_SECONDS):
                    await self._is_silent.wait()

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.read(data):
                self._hear(message)
        except Exception:  # noqa: BLE001  # a handler may have written into our connection
            _log.exception("a child process sent a message that the worker cannot read, and is killed")
            self.kill()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002  # as Protocol has it
        """A child that lives on without a connection could never answer."""
        self._is_silent.set()
        if not self.gone.is_set():
            self._loop.call_later(_PARTING_SECONDS, self.kill)

    def _hear(self, message: ToWorker) -> None:
        match message:
            case Logged(record) if self.call is not None and record.get("run") == self.call.run:
                self._pass_on(self.call.relog, record)
            case Logged(record):  # of a thread that an earlier run has left behind, or of no run
                self._pass_on(relog, record)
            case Progress(number, text):
                if self.call is not None and self.call.number == number:
                    self._pass_on(self.call.on_progress, text)
                    self._loop.call_later(_PROGRESS_SECONDS, self._send, ProgressTaken(number))
            case _:
                self._tell(self, message)

    @staticmethod
    def _pass_on(to: Callable[[T], None], what: T) -> None:
        """The child is not to blame for what a logging filter of the worker's raises."""
        try:
            to(what)
        except Exception:  # noqa: BLE001  # reported, and the run goes on
            _log.exception(
                "a message of a child process (a log line or progress) could not be handled, and is dropped"
            )

    def _send(self, message: ToChild) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(framed(message))

    @staticmethod
    def _kill_group(leader: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _command(*files: int) -> list[str]:
    arguments = [str(os.getpid()), *map(str, files), json.dumps(sys.path)]
    return [sys.executable, *_interpreter_flags(), "-c", _CODE, *arguments]


def _interpreter_flags() -> list[str]:
    """Those that change what code does; the environment is inherited anyhow."""
    flags = ["-O"] * sys.flags.optimize
    flags += [f"-W{option}" for option in sys.warnoptions]
    options = sys._xoptions.items()  # noqa: SLF001  # its documented name
    return flags + [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in options]


def _levels() -> dict[str, int]:
    named = {
        name: logger.level
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger)
    }
    return {"": logging.root.level, **{name: level for name, level in named.items() if level}}


def relog(attributes: dict[str, Any]) -> None:
    record = logging.makeLogRecord(attributes)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
