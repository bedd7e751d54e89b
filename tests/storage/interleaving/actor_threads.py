"""Runs many actors at once, each in a thread with its own session, until the test stops them."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import Any, Protocol

import psycopg

from storage.interleaving.session import Session
from storage.interleaving.stepped_sessions import PATIENCE

KINDS = ("mail", "report")
UNKNOWN = "unknown"
QUEUES = ("default", "bulk")


@dataclass(slots=True)
class SharedRecord:
    """What the actors tell each other and the test."""

    asked: set[int] = field(default_factory=set)
    """Jobs whose enqueue was committed."""
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=200))
    settled: Counter[int] = field(default_factory=Counter)
    """How often each run was settled, by what its worker was told."""
    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def was_enqueued(self, *jobs: int) -> None:
        with self.lock:
            self.asked.update(jobs)
            self.recent.extend(jobs)

    def recent_jobs(self, luck: Random, count: int = 1) -> list[int]:
        """Up to `count` jobs that were enqueued recently."""
        with self.lock:
            known = list(self.recent)
        return luck.sample(known, min(count, len(known)))


class Actor(Protocol):
    """What one thread does over and over."""

    def once(self) -> None: ...


MakeActor = Callable[[Session, SharedRecord, Random], Actor]


@contextmanager
def at_once(dsn: str, record: SharedRecord, actors: list[tuple[MakeActor, Random]]) -> Iterator[None]:
    """All actors act until the block ends. `record.errors` keeps what an actor did not expect."""
    with ExitStack() as stack:
        threads = []
        for make, luck in actors:
            session = Session(stack.enter_context(connect(dsn)))
            session.now = None
            threads.append(threading.Thread(target=_act, args=(make, session, record, luck), daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            record.stop.set()
            deadline = monotonic() + 2 * PATIENCE
            for thread in threads:
                thread.join(max(0.0, deadline - monotonic()))
            if any(thread.is_alive() for thread in threads):
                record.errors.append("an actor did not end")


def connect(dsn: str) -> psycopg.Connection[Any]:
    """A connection whose statements end with an error when they wait for too long."""
    return psycopg.connect(dsn, autocommit=True, options=f"-c statement_timeout={int(PATIENCE * 1000)}")


def _act(make: MakeActor, session: Session, record: SharedRecord, luck: Random) -> None:
    actor = make(session, record, luck)
    name = type(actor).__name__
    while not record.stop.is_set():
        try:
            actor.once()
        except Exception as error:  # noqa: BLE001  # the test fails with all of them
            record.errors.append(f"{name}: {getattr(error, 'sqlstate', None)} {error!r}")
            if session.connection.closed or len(record.errors) > 20:
                return
            session.connection.rollback()
