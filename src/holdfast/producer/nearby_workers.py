"""The workers of this process: they learn of jobs that the process itself enqueued without a NOTIFY."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

OnTold = Callable[[set[str]], None]


class NearbyWorkers:
    """The workers of one App. Any thread may tell them."""

    def __init__(self) -> None:
        self._workers: tuple[OnTold, ...] = ()

    def tell(self, names: set[str]) -> None:
        """`names` are queues in which jobs are ready, and LEADER if a job is due later."""
        for worker in self._workers:
            worker(names)

    @contextmanager
    def one_more(self, on_told: OnTold) -> Iterator[None]:
        """Until the block ends, `on_told` is called on the event loop that runs now."""
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
