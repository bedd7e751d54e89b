"""The chores of a leader that keep a measure honest: the ring turns, what nobody can take is parked, counts
are folded. One pass is `once`; `leading` repeats it in a thread while a measure runs.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg

from benchmarks.session import SCHEMA, Session
from holdfast.domain.ring import SEGMENTS, Pace, next_moves
from holdfast.storage import chores, ring

PERIOD = 0.1
_PACE = Pace()
# Claims learn from their next answer that a segment is closed: only those already sent still lock it.
_TRIES = 40
_PAUSE = 0.01
# Who still holds it after that is not a claim, but a transaction that somebody keeps open.
_LEAVE_ALONE = 5.0


@dataclass(slots=True)
class Done:
    """What a leader has done, for the detail of a measure."""

    passes: int = 0
    turns: int = 0
    truncated: int = 0
    busy: int = 0
    parked: int = 0
    folded: int = 0


class Leader:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tally_seen: int | None = None
        self._slow_at = 0.0
        self._alone_until: dict[int, float] = {}
        self.done = Done()

    def once(self) -> None:
        self.done.passes += 1
        self._turn()
        if time.monotonic() >= self._slow_at:
            self._slow_at = time.monotonic() + 1
            self._unpark()
            self._fold()

    def _turn(self) -> None:
        now = self._session.one(ring.look_at_ring(SCHEMA))
        moves = next_moves(now, _PACE)
        for segment in moves.clear:
            self._clear(segment)
        if moves.turn_to is not None:
            turn = ring.turn(SCHEMA, to=moves.turn_to, version=self._version())
            self.done.turns += len(self._session.run(turn))
        elif moves.gather is not None:
            self._park(moves.gather)
            self._session.run(ring.gather(SCHEMA, segment=moves.gather))
        for segment in SEGMENTS:
            if segment != now.current and now.sizes[segment] and not now.drained[segment]:
                self._park(segment)

    def _version(self) -> int:
        return self._session.one(ring.look_at_ring(SCHEMA)).version

    def _clear(self, segment: int) -> None:
        if time.monotonic() < self._alone_until.get(segment, 0.0):
            return
        if not self._session.run(ring.close(SCHEMA, segment=segment, version=self._version())):
            return
        try:
            if not any(self._is_done_with(segment) for _ in range(_TRIES)):
                self.done.busy += 1
                self._alone_until[segment] = time.monotonic() + _LEAVE_ALONE
        finally:
            self._session.run(ring.reopen(SCHEMA, segment=segment))

    def _is_done_with(self, segment: int) -> bool:
        try:
            self.done.truncated += self._session.hold(ring.truncate(SCHEMA, segment=segment))
        except psycopg.errors.LockNotAvailable:
            time.sleep(_PAUSE)
            return False
        return True

    def _park(self, segment: int) -> None:
        while True:
            moved = self._session.one(ring.park(SCHEMA, segment=segment))
            self.done.parked += moved
            if moved < ring.LEFTOVERS:
                return

    def _unpark(self) -> None:
        while self._session.one(ring.unpark(SCHEMA)) >= ring.LEFTOVERS:
            pass

    def _fold(self) -> None:
        folded, seen = self._session.one(chores.fold(SCHEMA, since=self._tally_seen))
        self.done.folded += folded
        self._tally_seen = seen or self._tally_seen


@contextmanager
def leading(dsn: str, period: float = PERIOD) -> Iterator[Leader]:
    """Lead in a thread of its own until the block ends. What went wrong there is raised here."""
    stop = threading.Event()
    failures: list[BaseException] = []
    with Session.on(dsn) as session:
        leader = Leader(session)

        def lead() -> None:
            try:
                while not stop.wait(period):
                    leader.once()
            except psycopg.errors.QueryCanceled as error:
                if not stop.is_set():
                    failures.append(error)
            except BaseException as error:  # noqa: BLE001  # raised by whoever waits for the thread
                failures.append(error)

        thread = threading.Thread(target=lead, name="leader")
        thread.start()
        try:
            yield leader
        finally:
            stop.set()
            with suppress(psycopg.Error):
                if thread.is_alive():
                    session.connection.cancel_safe(timeout=5)
            thread.join(30)
    if failures:
        raise failures[0]
