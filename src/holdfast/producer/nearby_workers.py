"""The workers of this process, told of jobs that it has written itself: that needs no notification."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Told = Callable[[set[str]], None]


class NearbyWorkers:
    """Of one App. May be told from any thread."""

    def __init__(self) -> None:
        self._workers: tuple[Told, ...] = ()

    def tell(self, names: set[str]) -> None:
        """Queues in which something is ready, or the leader, who is told that something is due later."""
        for worker in self._workers:
            worker(names)

    @contextmanager
    def one_more(self, on_told: Told) -> Iterator[None]:
        """From now on until the block ends, `on_told` is called on the event loop that runs now."""
        loop, here = asyncio.get_running_loop(), threading.get_ident()

        def told(names: set[str]) -> None:
            if threading.get_ident() == here:
                on_told(names)
            else:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(on_told, names)

        self._workers = (*self._workers, told)
        try:
            yield
        finally:
            self._workers = tuple(each for each in self._workers if each is not told)
