"""A story has two or three parties, each with a connection of its own, that are stopped between statements
(`begin`, act, `commit`) or inside one, by a lock that somebody else holds.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, TypeVar

import psycopg

from storage.interleaving.session import Party
from support.waiting import block_until

R = TypeVar("R")

PATIENCE = 20.0
"""Seconds until a story that does not go on is given up. Nothing here waits for them when all is well."""


class Pending(Generic[R]):
    """Something that a party has begun in a thread, so that the story can go on while it waits."""

    def __init__(self, story: "Story", party: Party, act: Callable[[], R]) -> None:
        self._story, self.party = story, party
        self._answers: list[R] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(act,), daemon=True)
        self._thread.start()

    def _run(self, act: Callable[[], R]) -> None:
        try:
            self._answers.append(act())
        except BaseException as error:  # noqa: BLE001  # raised again by whoever asks for the answer
            self._errors.append(error)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def waits_for(self, holder: Party) -> "Pending[R]":
        """Come back once the server says that this party waits for that one."""
        return self._until(lambda: holder.pid in self._story.blockers(self.party))

    def waits(self) -> "Pending[R]":
        """Come back once the server says that this party waits for anybody."""
        return self._until(lambda: bool(self._story.blockers(self.party)))

    def _until(self, is_stuck: Callable[[], bool]) -> "Pending[R]":
        block_until(lambda: is_stuck() or not self.is_alive, "it has to wait", within=PATIENCE)
        assert self.is_alive, f"it did not wait: {self._answers or self._errors}"
        return self

    def answer(self) -> R:
        self._thread.join(PATIENCE)
        assert not self.is_alive, "it is still waiting"
        for error in self._errors:
            raise error
        [answer] = self._answers
        return answer


class Story:
    """The parties, and somebody who watches them."""

    def __init__(self, dsn: str, stack: ExitStack) -> None:
        self._dsn, self._stack = dsn, stack
        self._pending: list[Pending[Any]] = []
        self.watcher = self._connect()

    @classmethod
    @contextmanager
    def on(cls, dsn: str) -> Iterator["Story"]:
        with ExitStack() as stack:
            story = cls(dsn, stack)
            try:
                yield story
            finally:
                story._end()

    def _end(self) -> None:
        """A story that failed half way leaves parties waiting for each other."""
        for pending in self._pending:
            if pending.is_alive:
                self.watcher.execute("select pg_terminate_backend(%s)", [pending.party.pid])

    def _connect(self) -> psycopg.Connection[Any]:
        """A statement that waits although it should not, on the story's own thread, ends as an error."""
        limit = f"-c statement_timeout={int(PATIENCE * 1000)}"
        return self._stack.enter_context(psycopg.connect(self._dsn, autocommit=True, options=limit))

    def party(self) -> Party:
        """A connection of ours: a worker, a leader, an operator."""
        party = Party(self._connect())
        party.plan()
        return party

    def caller(self) -> Party:
        """A connection of somebody who enqueues on his own terms, with the planner's defaults."""
        return Party(self._connect())

    def parties(self, count: int) -> list[Party]:
        return [self.party() for _ in range(count)]

    def starts(self, party: Party, act: Callable[[], R]) -> Pending[R]:
        pending = Pending(self, party, act)
        self._pending.append(pending)
        return pending

    def blockers(self, party: Party) -> list[int]:
        [row] = self.watcher.execute("select pg_blocking_pids(%s)", [party.pid])
        blocking: list[int] = row[0]
        return blocking
