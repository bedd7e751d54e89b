"""What a child process runs: handlers in its main thread, one after the other, while a second thread listens
to the worker.
"""

import asyncio
import contextvars
import inspect
import pickle
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from holdfast.errors import InvalidInput
from holdfast.telemetry.python_warnings import log_warnings
from holdfast.worker import django_connections, forked_copy
from holdfast.worker.callers import check_has_run
from holdfast.worker.claimed_run import ClaimedRun
from holdfast.worker.context import Context
from holdfast.worker.current_run import current_run, log_of
from holdfast.worker.processes import confinement
from holdfast.worker.processes.messages import (
    LENGTH,
    Begun,
    CallHandler,
    ChildSettings,
    Ended,
    Logged,
    Progress,
    ProgressTaken,
    StopRun,
    ToChild,
    ToWorker,
    framed,
)
from holdfast.worker.processes.pickled_error import PickledError
from holdfast.worker.processes.pickles import dump, load
from holdfast.worker.state_and_progress import state_text, unstorable_state

if TYPE_CHECKING:
    from holdfast.worker.completion import Completion
    from holdfast.worker.job_kind import Kind

# Results are stored up to a few KiB. This bound keeps a huge one, which would be dropped anyway, out of the
# worker's memory.
RESULT_LIMIT = 16 * 1024 * 1024


def main() -> NoReturn:
    """Called by the command that the worker starts."""
    parent, lifeline, connection = map(int, sys.argv[1:])
    confinement.die_with(parent, lifeline)
    confinement.leave_signals_to_the_worker()
    link = WorkerLink(socket.socket(fileno=connection))
    start = next(link.messages())
    if not isinstance(start, ChildSettings):
        raise TypeError(f"the first word was {start!r}")
    sys.argv[:] = start.arguments
    if start.memory_limit is not None:
        confinement.spare_address_space()
    confinement.log_through(lambda record: link.send(Logged(record)), start.levels)
    if start.are_warnings_logged:
        log_warnings()
    ChildMain(link, start.memory_limit).serve()


class WorkerLink:
    """The child's end of the socket. Any thread may send: it blocks while the worker is too busy to read. If
    the socket is closed, by the worker's death or by a handler, the child ends.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.set_inheritable(False)  # its only form
        self._connection = connection
        self._file = connection.makefile("rb")
        self._lock = threading.Lock()

    def send(self, message: ToWorker) -> None:
        data = framed(message)
        try:
            with self._lock:
                self._connection.sendall(data)
        except OSError:
            confinement.die()

    def messages(self) -> Iterator[ToChild]:
        """All messages, until the worker is gone."""
        with suppress(OSError):
            while header := self._file.read(LENGTH.size):
                yield pickle.loads(self._file.read(*LENGTH.unpack(header)))  # noqa: S301  # from our own worker


class ProgressSender:
    """Sends the newest progress of a run once the worker has taken the one before: a handler may report
    progress for every row.
    """

    def __init__(self, link: WorkerLink, run: int) -> None:
        self._link = link
        self._run = run
        self._lock = threading.Lock()
        self._is_waiting = False
        self._newest: str | None = None

    def say(self, text: str) -> None:
        with self._lock:
            if self._is_waiting:
                self._newest = text
                return
            self._is_waiting = True
        self._link.send(Progress(self._run, text))

    def heard(self) -> None:
        with self._lock:
            text, self._newest = self._newest, None
            self._is_waiting = text is not None
        if text is not None:
            self._link.send(Progress(self._run, text))

    def finish(self) -> None:
        self.heard()


class ChildMain:
    def __init__(self, link: WorkerLink, memory_limit: int | None) -> None:
        self._link = link
        self._memory_limit = memory_limit
        self._bare = confinement.address_space()
        self._has_run = False
        self._calls: SimpleQueue[tuple[CallHandler, ClaimedRun, ProgressSender]] = SimpleQueue()
        self._current: tuple[ClaimedRun, ProgressSender] | None = None

    def serve(self) -> NoReturn:
        forked_copy.watch()
        threading.Thread(target=self._listen, name="holdfast-listener", daemon=True).start()
        while True:
            call, claimed, saying = self._calls.get()
            ended = contextvars.copy_context().run(self._run, call, claimed, saying)
            if forked_copy.is_copy:
                forked_copy.leave(ended.raised.rebuilt() if ended.raised else None)
            saying.finish()
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()  # a child is killed when it is no longer needed
            self._link.send(ended)

    def _listen(self) -> None:
        """Runs are registered here and not where they begin, so that a stop finds its run however early it
        comes.
        """
        for message in self._link.messages():
            match message:
                case CallHandler():
                    # The kind stays in the worker: a handler never sees it.
                    claimed = ClaimedRun(message.worker, message.queue, message.row, cast("Kind", None))
                    saying = ProgressSender(self._link, claimed.run)
                    self._current = claimed, saying
                    self._calls.put((message, claimed, saying))
                case StopRun(run, reason) if self._current and self._current[0].run == run:
                    self._current[0].tell_to_stop(reason)
                case ProgressTaken(run) if self._current and self._current[0].run == run:
                    self._current[1].heard()
        confinement.die()

    def _run(self, call: CallHandler, claimed: ClaimedRun, saying: ProgressSender) -> Ended:
        context = Context(claimed, save_progress=lambda _, text: saying.say(text), complete=_refuse)
        current_run.set(claimed)
        if monotonic() >= call.believed_until:
            return Ended(claimed.run, is_too_late=True)
        try:
            # Its module is imported first: that is the start of this process, and no part of the handler's
            # time. Without the limit, under which an import fails with whatever its library makes of that.
            function = call.reference.resolve()
            if monotonic() >= call.believed_until:
                return Ended(claimed.run, is_too_late=True)
            if unfit := self._unfit(claimed.run):
                return unfit
            self._has_run = True
            with confinement.limited_memory(self._memory_limit):
                result = self._called(function, call, claimed, context)
        except SystemExit:
            raise  # the handler ends its process, and the worker sees how
        except BaseException as error:  # noqa: BLE001  # whatever a handler raises is the end of its attempt
            error.__traceback__ = _from_the_handler_on(error.__traceback__)
            is_spent = self._memory_limit is not None and _is_about_memory(error)
            if is_spent and isinstance(error, MemoryError) and not error.args:  # as Python raises it
                error.args = (
                    f"the handler needs more than its memory_limit of {self._memory_limit:,} bytes",
                )
            return Ended(
                claimed.run, raised=PickledError.of(error), state=_state_if_any(claimed), is_spent=is_spent
            )
        try:
            state = state_text(claimed.state)
        except Exception as error:  # noqa: BLE001  # a handler may put anything into it
            return Ended(claimed.run, raised=PickledError.of(unstorable_state(error)))
        return _pickled(claimed.run, result)._replace(state=state)

    def _unfit(self, run: int) -> Ended | None:
        """Without room for any handler, what it meets would tell nothing of the limit. What other kinds have
        imported here takes its share: a fresh child is tried before the limit is blamed.
        """
        problem = confinement.too_little_memory(self._memory_limit, self._bare)
        if problem is None:
            return None
        if self._has_run:
            return Ended(run, is_too_late=True, is_spent=True)
        return Ended(run, raised=PickledError.of(problem), is_misconfigured=True, is_spent=True)

    def _called(
        self, function: Callable[..., Any], call: CallHandler, claimed: ClaimedRun, context: Context
    ) -> Any:
        arguments = load(call.arguments)
        self._link.send(Begun(claimed.run))
        positional = (context,) if call.takes_context else ()

        def called() -> Any:
            return function(*positional, **arguments)

        if inspect.iscoroutinefunction(function):
            return asyncio.run(_awaited(called, claimed))
        with django_connections.fresh():
            result = called()
        check_has_run(result)
        return asyncio.run(_awaited(lambda: result, claimed)) if inspect.isawaitable(result) else result


async def _awaited(called: Callable[[], Any], claimed: ClaimedRun) -> Any:
    """Cancelled like a coroutine in the worker when the run has to stop."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "this is one"  # noqa: S101  # for the type checker

    def cancel(*_: object) -> None:
        with suppress(RuntimeError):  # the loop was closed in the same moment
            loop.call_soon_threadsafe(task.cancel)

    claimed.on_stop = cancel
    if claimed.stop is not None:
        cancel()
    try:
        return await called()
    finally:
        claimed.on_stop = None
        await django_connections.close_old_in_sync_thread()


def _refuse(claimed: ClaimedRun, connection: object) -> "Completion":  # noqa: ARG001  # the shape of `Complete`
    raise InvalidInput(
        "ctx.transaction() cannot be used in a child process, which has no connection of the worker's: leave "
        'out isolate="process", and the handler runs as a coroutine or in a thread of the worker'
    )


def _from_the_handler_on(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _is_about_memory(error: BaseException | None) -> bool:
    return error is not None and (
        isinstance(error, MemoryError)
        or _is_about_memory(error.__cause__)
        or _is_about_memory(error.__context__)
    )


def _pickled(run: int, result: object) -> Ended:
    """A result that cannot be pickled is dropped: the job is done, and is not run again for its receipt."""
    try:
        data = dump(result)
    except MemoryError:
        return Ended(run, lost="there is no memory to pickle it", is_too_large=True)
    except Exception as error:  # noqa: BLE001  # a user's class may do anything
        return Ended(run, lost=f"it cannot be pickled ({type(error).__name__}: {error})")
    if len(data) > RESULT_LIMIT:
        return Ended(run, lost=f"it takes {len(data):,} bytes", is_too_large=True)
    return Ended(run, data)


def _state_if_any(claimed: ClaimedRun) -> str | None:
    """Of a handler that has raised: what it raised counts, and not a state that cannot be stored."""
    try:
        return state_text(claimed.state)
    except Exception as error:  # noqa: BLE001  # as above
        log_of(claimed).warning("ctx.state was not stored: %s", error)
        return None
