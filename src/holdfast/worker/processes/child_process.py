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
from typing import Any, TypeVar

from holdfast.errors import ProcessDied
from holdfast.telemetry.python_warnings import are_warnings_logged
from holdfast.worker.claimed_run import Stop
from holdfast.worker.processes import lifelines
from holdfast.worker.processes.messages import (
    Begun,
    CallHandler,
    ChildSettings,
    Ended,
    Frames,
    Logged,
    Progress,
    ProgressTaken,
    StopRun,
    ToChild,
    ToWorker,
    framed,
)
from holdfast.worker.processes.reference import Reference

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

    def __init__(self, memory_limit: int | None) -> None:
        self.memory_limit = memory_limit
        self.runs = 0
        self.has_begun = False
        # The functions that it has called, and so imported.
        self.known: set[Reference] = set()
        self.gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._process: asyncio.subprocess.Process | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._frames = Frames()
        # Set when the connection has ended, and with it what the child had to say.
        self._is_silent = asyncio.Event()
        self._unsent = bytearray()
        self._run: int | None = None
        self._reference: Reference | None = None
        self._answer: asyncio.Future[ChildAnswer] | None = None
        self._on_progress: Callable[[str], None] = lambda _: None
        self._on_begun: Callable[[], None] = lambda: None
        self._is_condemned = False

    @property
    def is_fit(self) -> bool:
        """Whether it can take a call."""
        return not (self._is_condemned or self.gone.is_set() or self._run is not None)

    def begin(
        self,
        call: CallHandler,
        on_progress: Callable[[str], None],
        on_begun: Callable[[], None] = lambda: None,
    ) -> asyncio.Future[ChildAnswer]:
        """The returned future always gets an answer: from the child, or from its death."""
        self.runs += 1
        self.has_begun = False
        self._on_begun = on_begun
        self._reference = call.reference
        self._run, self._on_progress, self._answer = call.row.run, on_progress, self._loop.create_future()
        self._send(call)
        return self._answer

    def await_again(self) -> "asyncio.Future[ChildAnswer]":
        """For a caller whose wait was cancelled, and with it the future that it waited for."""
        if self._answer is None or self._answer.cancelled():
            self._answer = self._loop.create_future()
        return self._answer

    def tell_to_stop(self, reason: Stop) -> None:
        if self._run is not None:
            self._send(StopRun(self._run, reason))

    def kill(self) -> None:
        """Kill the child and every process it has started, except those in a session of their own."""
        self._is_condemned = True
        if self._process is not None and self._process.returncode is None:
            self._kill_group(self._process.pid)

    async def tend(self) -> None:
        """Run the child until it ends. Never raises: the worker must not go down with a child."""
        answer: ChildAnswer = ProcessDied(-signal.SIGKILL)
        try:
            answer = ProcessDied(await self._lived())
        except Exception as error:  # noqa: BLE001  # it becomes the end of an attempt
            error.add_note("A child process could not be started.")
            answer = error
        finally:
            self.gone.set()
            self._give(answer)

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
            files = their_lifeline, theirs.fileno()
            process = self._process = await asyncio.create_subprocess_exec(
                *_command(*files), stdin=subprocess.DEVNULL, pass_fds=files, start_new_session=True
            )
            inherited.close()
            transport.write(
                framed(ChildSettings(sys.argv, _levels(), are_warnings_logged(), self.memory_limit))
                + self._unsent
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
            case Logged(record):
                self._pass_on(_relog, record)
            case Begun(run) if run == self._run:
                self.has_begun = True
                if self._reference is not None:
                    self.known.add(self._reference)
                self._on_begun()
            case Progress(run, text) if run == self._run:
                self._pass_on(self._on_progress, text)
                self._loop.call_later(_PROGRESS_SECONDS, self._send, ProgressTaken(run))
            case Ended(run) if run == self._run:
                if message.is_spent:
                    self.kill()
                self._give(message)

    @staticmethod
    def _pass_on(to: Callable[[T], None], what: T) -> None:
        """The child is not to blame for what a logging filter of the worker's raises."""
        try:
            to(what)
        except Exception:  # noqa: BLE001  # reported, and the run goes on
            _log.exception(
                "a message of a child process (a log line or progress) could not be handled, and is dropped"
            )

    def _give(self, answer: ChildAnswer) -> None:
        self._run = None
        if self._answer is not None:
            future = self.await_again()
            if not future.done():
                future.set_result(answer)

    def _send(self, message: ToChild) -> None:
        if self._transport is None:
            self._unsent += framed(message)
        elif not self._transport.is_closing():
            self._transport.write(framed(message))

    @staticmethod
    def _kill_group(leader: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _command(lifeline: int, connection: int) -> list[str]:
    arguments = [str(os.getpid()), str(lifeline), str(connection), json.dumps(sys.path)]
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


def _relog(attributes: dict[str, Any]) -> None:
    record = logging.makeLogRecord(attributes)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
