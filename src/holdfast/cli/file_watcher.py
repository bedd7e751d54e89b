"""Notices that Python files of a project were saved, by looking at them again and again.

Not by the operating system's notifications, as the library watchfiles does: those need a watch for every
directory below the project, also of `.venv` and `node_modules`, of which Linux grants a limited number, and
they say nothing about directories that are mounted into a container or a virtual machine. Looking skips
such directories, works everywhere and needs no dependency. A look at 1,000 files takes a few milliseconds.
"""

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic

_SUFFIX = ".py"
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})
_ENVIRONMENT = "pyvenv.cfg"
_PAUSE_SECONDS = 0.2
# An editor, a formatter or a checkout saves many files in a row: wait until no more come.
_QUIET_SECONDS = 0.1
_LONGEST_BURST_SECONDS = 2.0
# Of the time, at most a tenth is spent with looking, however many files there are.
_SHARE = 10

Signs = Mapping[str, tuple[int, int, int]]
"""Of each file what changes with it: when it was changed, its size, and its inode, which a rename brings."""


class FileWatcher:
    """Looks at all Python files below some directories, but not at those that are hidden, installed or made
    by tools, nor below the `skipped` ones.
    """

    def __init__(self, directories: Sequence[Path], *, skipped: Iterable[Path] = ()) -> None:
        self.directories = _outermost(directories)
        self._skipped = frozenset(str(path) for path in skipped)
        self._known: Signs = {}
        self._pause = _PAUSE_SECONDS

    @property
    def count(self) -> int:
        """How many files were there at the last look."""
        return len(self._known)

    async def look(self) -> None:
        """What is saved until now is known: only a later change counts."""
        self._known = await self._signs()

    async def changed(self) -> list[Path]:
        """Wait until files were saved, made or deleted, and no more follow. Answers which. If this is
        cancelled, the next call finds the same change.
        """
        while (found := await self._signs()) == self._known:  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(self._pause)
        found = await self._when_quiet(found)
        before, self._known = self._known, found
        return [Path(name) for name in sorted(_differing(before, found))]

    async def _when_quiet(self, found: Signs) -> Signs:
        deadline = monotonic() + _LONGEST_BURST_SECONDS
        while monotonic() < deadline:
            await asyncio.sleep(_QUIET_SECONDS)
            latest = await self._signs()
            if latest == found:
                break
            found = latest
        return found

    async def _signs(self) -> Signs:
        """In a thread: a slow disk must not keep Ctrl-C from being heard."""
        began = monotonic()
        found = await asyncio.to_thread(lambda: dict(self._walked()))
        self._pause = max(_PAUSE_SECONDS, (monotonic() - began) * _SHARE)
        return found

    def _walked(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        waiting = [str(directory) for directory in self.directories]
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:  # deleted meanwhile, or closed to us
                continue
            if any(entry.name == _ENVIRONMENT for entry in entries):
                continue
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if not self._is_skipped(entry):
                            waiting.append(entry.path)
                    elif entry.name.endswith(_SUFFIX):
                        found = entry.stat()
                        yield entry.path, (found.st_mtime_ns, found.st_size, found.st_ino)
                except OSError:  # deleted meanwhile, or a link that leads nowhere
                    continue

    def _is_skipped(self, entry: os.DirEntry[str]) -> bool:
        return entry.name.startswith(".") or entry.name in _SKIPPED or entry.path in self._skipped


def _outermost(directories: Iterable[Path]) -> list[Path]:
    """Without those that are inside of others."""
    resolved = sorted({directory.resolve() for directory in directories})
    return [path for path in resolved if not any(other in path.parents for other in resolved)]


def _differing(before: Signs, after: Signs) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}
