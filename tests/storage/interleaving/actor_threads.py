"""Many actors at once, each in a thread with a connection of its own, until the time is up."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import Any, Protocol

import psycopg

from storage.interleaving.session import Party
from storage.interleaving.stepped_sessions import PATIENCE

KINDS = ("mail", "report")
UNKNOWN = "unknown"
QUEUES = ("default", "bulk")


@dataclass(slots=True)
class Town:
    """What the actors know of each other."""

    asked: set[int] = field(default_factory=set)
    """Jobs whose enqueue was committed."""
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=200))
    settled: Counter[int] = field(default_factory=Counter)
    """How often a run was settled, as its worker was told."""
    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def was_enqueued(self, *jobs: int) -> None:
        with self.lock:
            self.asked.update(jobs)
            self.recent.extend(jobs)

    def somebody(self, luck: Random, count: int = 1) -> list[int]:
        """Some jobs that were enqueued of late, if there are any."""
        with self.lock:
            known = list(self.recent)
        return luck.sample(known, min(count, len(known)))


class Actor(Protocol):
    """What one thread does over and over."""

    def once(self) -> None: ...


MakeActor = Callable[[Party, Town, Random], Actor]


@contextmanager
def at_once(dsn: str, town: Town, actors: list[tuple[MakeActor, Random]]) -> Iterator[None]:
    """Everybody acts until the block ends. An error that an actor does not expect is written down."""
    with ExitStack() as stack:
        threads = []
        for make, luck in actors:
            party = Party(stack.enter_context(connect(dsn)))
            party.now = None
            threads.append(threading.Thread(target=_act, args=(make, party, town, luck), daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            town.stop.set()
            deadline = monotonic() + 2 * PATIENCE
            for thread in threads:
                thread.join(max(0.0, deadline - monotonic()))
            if any(thread.is_alive() for thread in threads):
                town.errors.append("somebody never came back")


def connect(dsn: str) -> psycopg.Connection[Any]:
    """Whoever waits for too long ends with an error."""
    return psycopg.connect(dsn, autocommit=True, options=f"-c statement_timeout={int(PATIENCE * 1000)}")


def _act(make: MakeActor, party: Party, town: Town, luck: Random) -> None:
    actor = make(party, town, luck)
    name = type(actor).__name__
    while not town.stop.is_set():
        try:
            actor.once()
        except Exception as error:  # noqa: BLE001  # the test fails with all of them
            town.errors.append(f"{name}: {getattr(error, 'sqlstate', None)} {error!r}")
            if party.connection.closed or len(town.errors) > 20:
                return
            party.connection.rollback()
