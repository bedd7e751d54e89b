"""Several sessions, one step at a time: a test stops each of them between two statements (`begin`, act,
`commit`), or inside a statement by a lock that another session holds.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, TypeVar

import psycopg

from storage.interleaving.session import Session
from support.waiting import block_until

R = TypeVar("R")

PATIENCE = 20.0
"""Seconds until a test gives up on a session that is stuck. No test that passes waits for them."""


class Pending(Generic[R]):
    """A call that one session has begun in a thread, so that the test can go on while it waits."""

    def __init__(self, sessions: "Sessions", session: Session, act: Callable[[], R]) -> None:
        self._sessions, self.session = sessions, session
        self._answers: list[R] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(act,), daemon=True)
        self._thread.start()

    def _run(self, act: Callable[[], R]) -> None:
        try:
            self._answers.append(act())
        except BaseException as error:  # noqa: BLE001  # raised again by answer()
            self._errors.append(error)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def waits_for(self, holder: Session) -> "Pending[R]":
        """Return once the server reports that this session waits for `holder`."""
        return self._until(lambda: holder.pid in self._sessions.blockers(self.session))

    def waits(self) -> "Pending[R]":
        """Return once the server reports that this session waits for any other."""
        return self._until(lambda: bool(self._sessions.blockers(self.session)))

    def _until(self, is_stuck: Callable[[], bool]) -> "Pending[R]":
        block_until(lambda: is_stuck() or not self.is_alive, "the call waits for a lock", within=PATIENCE)
        assert self.is_alive, f"the call ended without waiting: {self._answers or self._errors}"
        return self

    def answer(self) -> R:
        self._thread.join(PATIENCE)
        assert not self.is_alive, "the call still waits"
        for error in self._errors:
            raise error
        [answer] = self._answers
        return answer


class Sessions:
    """Opens sessions, and watches from a connection of its own which of them wait for which."""

    def __init__(self, dsn: str, stack: ExitStack) -> None:
        self._dsn, self._stack = dsn, stack
        self._pending: list[Pending[Any]] = []
        self.watcher = self._connect()

    @classmethod
    @contextmanager
    def on(cls, dsn: str) -> Iterator["Sessions"]:
        with ExitStack() as stack:
            sessions = cls(dsn, stack)
            try:
                yield sessions
            finally:
                sessions._end()

    def _end(self) -> None:
        """A test that failed half way leaves sessions that wait for each other."""
        for pending in self._pending:
            if pending.is_alive:
                self.watcher.execute("select pg_terminate_backend(%s)", [pending.session.pid])

    def _connect(self) -> psycopg.Connection[Any]:
        """A statement that waits on the test's own thread, although it should not, ends with an error."""
        limit = f"-c statement_timeout={int(PATIENCE * 1000)}"
        return self._stack.enter_context(psycopg.connect(self._dsn, autocommit=True, options=limit))

    def open(self) -> Session:
        """A session of a worker, a leader or an operator, with the settings of Holdfast's own connections."""
        session = Session(self._connect())
        session.plan()
        return session

    def open_as_caller(self) -> Session:
        """A session of a producer that enqueues on its own connection, with the planner's defaults."""
        return Session(self._connect())

    def open_many(self, count: int) -> list[Session]:
        return [self.open() for _ in range(count)]

    def start(self, session: Session, act: Callable[[], R]) -> Pending[R]:
        pending = Pending(self, session, act)
        self._pending.append(pending)
        return pending

    def blockers(self, session: Session) -> list[int]:
        [row] = self.watcher.execute("select pg_blocking_pids(%s)", [session.pid])
        blocking: list[int] = row[0]
        return blocking
