"""How many jobs have been handled, in memory that the workers' processes share with whoever measures."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Tally:
    """One number for each process: nobody waits for anybody."""

    def __init__(self, counts: memoryview, index: int = 0) -> None:
        self._counts = counts
        self._index = index

    @classmethod
    @contextmanager
    def at(cls, path: Path, processes: int = 0, index: int = 0) -> Iterator["Tally"]:
        """Made with `processes`, or found as another process has made it."""
        if processes:
            path.write_bytes(bytes(8 * processes))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
            view = memoryview(shared)
            counts = view.cast("q")
            try:
                yield cls(counts, index)
            finally:
                counts.release()
                view.release()

    @classmethod
    @contextmanager
    def own(cls, path: Path) -> Iterator["Tally"]:
        """For a process that nobody has given an index: the first that no other process has taken."""
        for index in range(path.stat().st_size // 8):
            with suppress(FileExistsError):
                path.with_name(f"{path.name}.{index}").touch(exist_ok=False)
                with cls.at(path, index=index) as tally:
                    yield tally
                return
        raise IndexError(f"every index of {path} is taken")

    def add(self) -> None:
        self._counts[self._index] += 1

    @property
    def total(self) -> int:
        return sum(self._counts)
