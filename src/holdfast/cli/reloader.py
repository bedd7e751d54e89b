"""One worker process that is replaced when the project's files change: `holdfast dev` and `worker --reload`.

The worker is told to drain and has a short grace. Then it gives its jobs back, with their attempts, and its
successor runs them. Code that cannot be imported is shown, and waits for the next save.
"""

import asyncio
import importlib.util
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import click

from holdfast.cli.exit_codes import Exit
from holdfast.cli.file_watcher import FileWatcher
from holdfast.cli.supervised import DRAIN, HURRY
from holdfast.cli.supervisor import Place, ended_by
from holdfast.domain.duration import compact

RELOAD_GRACE = timedelta(seconds=2)
"""How long running jobs may continue when their code has changed, unless the user says otherwise."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SECOND = 2
_HURRIED_SECONDS = 5.0
_FIRST_PAUSE = timedelta(seconds=1)
_LONGEST_PAUSE = timedelta(seconds=30)
_MOST_NAMES = 3


class Hold(Protocol):
    """What must stay while one worker process ends and the next begins: the private server."""

    async def take(self) -> None: ...
    async def drop(self) -> None: ...


class Reloader:
    """`command` answers the command for a process, given whether an earlier one was up."""

    def __init__(
        self,
        command: Callable[[bool], Sequence[str]],
        watcher: FileWatcher,
        *,
        grace: timedelta,
        hold: Hold | None = None,
    ) -> None:
        self._command = command
        self._watcher = watcher
        self._grace = grace
        self._hold = hold
        self._place: Place | None = None
        self._asked = 0
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        self._was_up = False
        self._has_changed = False
        self._pause = _FIRST_PAUSE

    async def run(self) -> int:
        """Until a signal, or until it is clear that the command itself is wrong; answers the exit code."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._ask)
        code: int | None = None
        try:
            while code is None:
                code = await self._live()
        finally:
            if self._hold is not None:
                await self._hold.drop()
        return code

    def _ask(self) -> None:
        """The first signal drains, the second gives the running jobs back at once, the third kills."""
        self._asked += 1
        self._stopping.set()
        if self._asked >= _SECOND:
            self._hurried.set()
        if self._asked > _SECOND and self._place is not None:
            self._place.send(signal.SIGKILL)

    async def _live(self) -> int | None:
        """One process, from its start to its end. Answers an exit code if no other one is to follow."""
        await self._watcher.look()  # what it is about to import
        self._has_changed = False
        self._place = place = Place(self._command(self._was_up), has_own_group=False)
        life = asyncio.create_task(place.live())
        try:
            await self._first_of(life, place.started.wait(), self._changed())
            if place.started.is_set():
                await self._is_up(place)
                await self._first_of(life, self._changed())
            if not life.done():
                await self._stop(place, life)
        finally:
            if not life.done():
                place.send(signal.SIGKILL)
            await asyncio.wait([life])
        if self._stopping.is_set():
            return Exit.OK
        return None if self._has_changed else await self._died(place, life.result())

    async def _is_up(self, place: Place) -> None:
        self._was_up = True
        self._pause = _FIRST_PAUSE
        if self._hold is not None and place.is_on_private_server:
            await self._hold.take()

    async def _changed(self) -> None:
        paths = await self._watcher.changed()
        self._has_changed = True
        forget_bytecode(paths)
        say(f"{_names(paths)} changed: reloading")

    async def _first_of(
        self,
        life: "asyncio.Task[int] | None",
        *others: Coroutine[Any, Any, Any],
        seconds: float | None = None,
    ) -> None:
        """Until the process has ended, a signal has come, or one of the others is done."""
        waiting = [asyncio.create_task(each) for each in (self._stopping.wait(), *others)]
        try:
            done, _ = await asyncio.wait(
                [*waiting, *([] if life is None else [life])],
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done - {life}:
                task.result()
        finally:
            for task in waiting:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _stop(self, place: Place, life: "asyncio.Task[int]") -> None:
        """A handler may block the event loop of its worker: then the process is killed. A process that is not
        up yet has no jobs to drain, and may be importing something that never ends.
        """
        if place.started.is_set():
            place.tell(DRAIN)
            await self._ends_within(life, self._grace.total_seconds(), self._hurried)
            place.tell(HURRY)
        else:
            place.send(signal.SIGINT)
        if not await self._ends_within(life, _HURRIED_SECONDS):
            say("the worker process does not stop: killed; the attempts of its jobs count")
            place.send(signal.SIGKILL)

    @staticmethod
    async def _ends_within(
        life: "asyncio.Task[int]", seconds: float, unless: asyncio.Event | None = None
    ) -> bool:
        waiting = [] if unless is None else [asyncio.create_task(unless.wait())]
        await asyncio.wait([life, *waiting], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        return life.done()

    async def _died(self, place: Place, code: int) -> int | None:
        """By itself. If the code is at fault, a save may mend it; if the machine is, time may. If none was up
        before, a wrong reference is a mistake in the command, and any other obstacle is for the user to see.
        """
        if place.was_asked_to_stop:
            return code
        if not place.started.is_set() and self._hold is not None:
            await self._hold.drop()
        if not self._was_up and (code == Exit.USAGE or (code > 0 and not place.is_broken)):
            return code
        if place.is_broken:
            say("waiting for the next save; Ctrl-C stops")
            await self._first_of(None, self._changed())
        else:
            pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
            say(
                f"the worker process ended ({ended_by(code)}): "
                f"starting another in {compact(pause)}, or with the next save"
            )
            await self._first_of(None, self._changed(), seconds=pause.total_seconds())
        return Exit.OK if self._stopping.is_set() else None


def forget_bytecode(paths: Sequence[Path]) -> None:
    """Python compares only the second and the size of a source with those of its bytecode: of two saves in
    one second it would run the first.
    """
    for path in paths:
        with suppress(OSError, NotImplementedError):
            Path(importlib.util.cache_from_source(str(path))).unlink()


def say(sentence: str) -> None:
    click.echo(f"holdfast: {sentence}", err=True)


def _names(paths: Sequence[Path]) -> str:
    here = Path.cwd()
    names = [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in paths]
    more = len(names) - _MOST_NAMES
    if more <= 0:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {more} more"
