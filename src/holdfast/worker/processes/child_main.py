"""What a child process runs: handlers in its main thread, which takes one call after the other, while a
second thread listens to the worker.
"""

import asyncio
import contextvars
import inspect
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

from holdfast.errors import InvalidInput
from holdfast.telemetry.python_warnings import log_warnings
from holdfast.worker import django_connections, forked_copy
from holdfast.worker.callers import check_has_run
from holdfast.worker.claimed_run import ClaimedRun
from holdfast.worker.context import Context
from holdfast.worker.current_run import current_run, log_of
from holdfast.worker.processes import confinement
from holdfast.worker.processes.call_queue import LEAVE, CallTaker
from holdfast.worker.processes.messages import (
    Begun,
    CallHandler,
    ChildSettings,
    Ended,
    Left,
    Logged,
    ProgressTaken,
    StopCall,
    Taken,
    row_of,
)
from holdfast.worker.processes.pickled_error import PickledError
from holdfast.worker.processes.pickles import dump, load
from holdfast.worker.processes.reference import Reference
from holdfast.worker.processes.worker_link import ProgressSender, WorkerLink
from holdfast.worker.state_and_progress import state_text, unstorable_state

if TYPE_CHECKING:
    from holdfast.worker.completion import Completion
    from holdfast.worker.job_kind import Kind

# Results are stored up to a few KiB. This bound keeps a huge one, which would be dropped anyway, out of the
# worker's memory.
RESULT_LIMIT = 16 * 1024 * 1024


def main() -> NoReturn:
    """Called by the command that the worker starts."""
    parent, lifeline, connection, calls = map(int, sys.argv[1:])
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
    ChildMain(link, CallTaker(calls), start.memory_limit).serve()


class _TakenCall(NamedTuple):
    call: CallHandler
    claimed: ClaimedRun
    saying: ProgressSender
    # Whether the worker has heard that it begins.
    is_told: bool


class ChildMain:
    def __init__(self, link: WorkerLink, calls: CallTaker, memory_limit: int | None) -> None:
        self._link = link
        self._calls = calls
        self._memory_limit = memory_limit
        self._bare = confinement.address_space()
        self._has_run = False
        # The functions that were called here before.
        self._functions: dict[tuple[Any, ...], Callable[..., Any]] = {}
        # Calls that are too large for a packet.
        self._large: SimpleQueue[_TakenCall] = SimpleQueue()
        self._current: _TakenCall | None = None

    def serve(self) -> NoReturn:
        forked_copy.watch()
        threading.Thread(target=self._listen, name="holdfast-listener", daemon=True).start()
        ended: Ended | None = None
        while True:
            taken = self._next(ended)
            ended = contextvars.copy_context().run(self._run, taken)
            if forked_copy.is_copy:
                forked_copy.leave(ended.raised.rebuilt() if ended.raised else None)
            taken.saying.finish()
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()  # a child is killed when it is no longer needed

    def _next(self, ended: Ended | None) -> _TakenCall:
        """Take the next call. If it is there already, the worker is told of it and of the end of the call
        before at once, and nothing of it happens earlier: should it kill this process, the end is told.
        """
        told = [] if ended is None else [ended]
        if ended is not None and ended.is_spent:
            self._leave(*told)
        found = self._take(is_patient=False) if told else None
        if found is None:
            if told:
                self._link.send(*told)
                told = []
            found = self._take(is_patient=True)
            assert found is not None, "it waits for one"  # noqa: S101  # for the type checker
        number, call = found
        if number == LEAVE:
            self._leave(*told)
        if call is None:
            self._link.send(*told, Taken(number, is_begun=False))
            return self._large.get()
        # With a memory limit it may turn out that there is no room for the handler.
        begins = self._memory_limit is None and call.reference in self._functions
        taken = self._registered(call, is_told=begins)
        self._link.send(*told, Taken(number, begins))
        return taken

    def _take(self, *, is_patient: bool) -> tuple[int, CallHandler | None] | None:
        try:
            return self._calls.take(is_patient=is_patient)
        except OSError:
            confinement.die()

    def _leave(self, *told: Ended) -> NoReturn:
        self._link.send(*told, Left())
        confinement.die()

    def _registered(self, call: CallHandler, *, is_told: bool) -> _TakenCall:
        """Before the worker hears that the call is taken, so that a stop always finds it."""
        # The kind stays in the worker: a handler never sees it.
        claimed = ClaimedRun(call.worker, call.queue, row_of(call.row), cast("Kind", None))
        self._current = taken = _TakenCall(call, claimed, ProgressSender(self._link, call.number), is_told)
        return taken

    def _listen(self) -> None:
        for message in self._link.messages():
            current = self._current
            match message:
                case CallHandler():
                    self._large.put(self._registered(message, is_told=False))
                case StopCall(number, reason) if current and current.call.number == number:
                    current.claimed.tell_to_stop(reason)
                case ProgressTaken(number) if current and current.call.number == number:
                    current.saying.heard()
        confinement.die()

    def _run(self, taken: _TakenCall) -> Ended:
        call, claimed, saying, is_told = taken
        number = call.number
        context = Context(claimed, save_progress=lambda _, text: saying.say(text), complete=_refuse)
        current_run.set(claimed)
        began = monotonic()
        if began >= call.believed_until:
            return Ended(number, is_too_late=True)
        try:
            function = self._functions.get(call.reference)
            if function is None:
                # Its module is imported first: that is the start of this process, and no part of the
                # handler's time. Without the limit, under which an import fails with whatever its library
                # makes of that.
                function = Reference(*call.reference).resolve()
                began = monotonic()
                if began >= call.believed_until:
                    return Ended(number, is_too_late=True)
                self._functions[call.reference] = function
            if unfit := self._unfit(number):
                return unfit
            self._has_run = True
            if not is_told:
                self._link.send(Begun(number))
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
                number,
                raised=PickledError.of(error),
                state=_state_if_any(claimed),
                is_spent=is_spent,
                seconds=monotonic() - began,
            )
        seconds = monotonic() - began
        try:
            state = state_text(claimed.state)
        except Exception as error:  # noqa: BLE001  # a handler may put anything into it
            return Ended(number, raised=PickledError.of(unstorable_state(error)), seconds=seconds)
        return _pickled(number, result)._replace(state=state, seconds=seconds)

    def _unfit(self, call: int) -> Ended | None:
        """Without room for any handler, what it meets would tell nothing of the limit. What other kinds have
        imported here takes its share: a fresh child is tried before the limit is blamed.
        """
        problem = confinement.too_little_memory(self._memory_limit, self._bare)
        if problem is None:
            return None
        if self._has_run:
            return Ended(call, is_too_late=True, is_spent=True)
        return Ended(call, raised=PickledError.of(problem), is_misconfigured=True, is_spent=True)

    def _called(
        self, function: Callable[..., Any], call: CallHandler, claimed: ClaimedRun, context: Context
    ) -> Any:
        arguments = load(call.arguments)
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


def _refuse(*_: object) -> "Completion":
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


def _pickled(call: int, result: object) -> Ended:
    """A result that cannot be pickled is dropped: the job is done, and is not run again for its receipt."""
    try:
        data = dump(result)
    except MemoryError:
        return Ended(call, lost="there is no memory to pickle it", is_too_large=True)
    except Exception as error:  # noqa: BLE001  # a user's class may do anything
        return Ended(call, lost=f"it cannot be pickled ({type(error).__name__}: {error})")
    if len(data) > RESULT_LIMIT:
        return Ended(call, lost=f"it takes {len(data):,} bytes", is_too_large=True)
    return Ended(call, data)


def _state_if_any(claimed: ClaimedRun) -> str | None:
    """Of a handler that has raised: what it raised counts, and not a state that cannot be stored."""
    try:
        return state_text(claimed.state)
    except Exception as error:  # noqa: BLE001  # as above
        log_of(claimed).warning("ctx.state was not stored: %s", error)
        return None
