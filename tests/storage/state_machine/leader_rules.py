"""Rules of the leader: chores in passes, and the ring."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

from holdfast.domain.failure import Failure
from holdfast.domain.retention import Retention
from holdfast.domain.ring import SEGMENTS, Pace, next_moves
from holdfast.postgres.statement import Statement
from holdfast.storage import chores, ring, workers
from storage.state_machine.core import DAY, HOUR, MINUTE, SECOND, Core
from support.engine import SCHEMA

T = TypeVar("T")
P = TypeVar("P", chores.Promoted, chores.Pass, chores.Expiry, chores.Pruned)
LOST, STALE = Failure("", "lease_lost"), Failure("", "stale_timeout")
_lucks = st.sampled_from([0.0, 0.5])
_limits = st.sampled_from([1, 500])
_segments = st.sampled_from(SEGMENTS)


class Leading(Core):
    def __init__(self) -> None:
        super().__init__()
        self.promoted_to: datetime | None = None

    @rule(
        length=st.sampled_from([timedelta(), workers.LEASE, 31 * SECOND]),
        rescues=st.booleans(),
        limit=_limits,
        luck=_lucks,
    )
    def lose_workers(self, length: timedelta, limit: int, luck: float, *, rescues: bool) -> None:
        """Mark workers without a heartbeat as lost, and take their runs away: at once, or in a later pass."""
        self.pass_time(length)
        assert sorted(self.engine.run(workers.mark_lost(SCHEMA, now=self.now))) == self.model.mark_lost()
        if rescues:
            self.rescue(limit, luck)

    def rescue(self, limit: int, luck: float) -> None:
        answers = repeated(
            lambda: self.engine.hold(
                chores.rescue(SCHEMA, luck=luck, limit=limit, now=self.now, retention=Retention())
            )
        )
        lost = {worker.id for worker in self.model.workers.values() if worker.lost_at is not None}
        settled = sorted(each.settled for each in answers)
        assert settled == sorted(self.model.rescue(LOST, luck, lambda place: place.worker in lost))

    @rule(limit=_limits, luck=_lucks, grace=st.sampled_from([SECOND, MINUTE]))
    def rescue_overdue(self, limit: int, luck: float, grace: timedelta) -> None:
        answers = repeated(
            lambda: self.engine.hold(
                chores.rescue_overdue(
                    SCHEMA, luck=luck, grace=grace, limit=limit, now=self.now, retention=Retention()
                )
            )
        )
        expected = self.model.rescue(STALE, luck, lambda place: place.timeout_at + grace < self.now)
        assert sorted(each.settled for each in answers) == sorted(expected)

    @rule(limit=_limits, goes_on=st.booleans())
    def promote(self, limit: int, *, goes_on: bool) -> None:
        """In passes, from the beginning or from where the last ones stopped."""
        since = self.promoted_to if goes_on else None
        moved, seen = self.passes(
            lambda since: chores.promote(SCHEMA, since=since, limit=limit, now=self.now), since
        )
        assert (moved, seen) == self.model.promote(since)
        self.promoted_to = seen

    @rule(limit=_limits, keep=st.sampled_from([HOUR, 2 * DAY]))
    def clean(self, limit: int, keep: timedelta) -> None:
        self.expire(limit)
        self.prune(limit)
        self.tidy(limit, keep)

    def expire(self, limit: int) -> None:
        moved, _ = self.passes(
            lambda since: chores.expire(SCHEMA, since=since, limit=limit, now=self.now, retention=Retention())
        )
        assert moved == self.model.expire()

    def prune(self, limit: int) -> None:
        moved, _ = self.passes(lambda since: chores.prune(SCHEMA, since=since, limit=limit, now=self.now))
        assert moved == self.model.prune()

    def passes(
        self, once: Callable[[datetime | None], Statement[P]], since: datetime | None = None
    ) -> tuple[int, datetime | None]:
        """One pass after another, each from where the last one stopped, until one finds nothing."""
        moved = 0
        while (answer := self.engine.one(once(since))).moved:
            moved, since = moved + answer.moved, answer.seen
        return moved, since

    def tidy(self, limit: int, keep: timedelta) -> None:
        since = None
        while (fold := self.engine.one(chores.fold(SCHEMA, since=since, limit=limit))).folded:
            since = fold.seen
        old = [counter for counter in self.model.tallied if counter[0] < self.now - keep]
        assert self.engine.one(chores.prune_counters(SCHEMA, keep=keep, now=self.now)) == len(old)
        for counter in old:
            del self.model.tallied[counter]
        gone = self.engine.run(workers.forget_lost(SCHEMA, keep=keep, now=self.now))
        assert sorted(gone) == sorted(self.model.forget_lost(keep))

    @rule(is_parking=st.booleans())
    def put_aside_or_bring_back(self, *, is_parking: bool) -> None:
        if is_parking:
            for segment in SEGMENTS:
                self.park(segment)
        else:
            self.unpark()

    @rule()
    def go_round(self) -> None:
        """The ring as the leader turns it, by what `next_moves` says."""
        looked = self.engine.one(ring.look_at_ring(SCHEMA, now=self.now))
        assert looked.drained == tuple(not self.model.in_segment(segment) for segment in SEGMENTS)
        moves = next_moves(looked, Pace(full=1))
        for segment in moves.clear:
            self.close(segment, MINUTE, is_late=False)
            self.truncate(segment)
            self.reopen(segment)
        if moves.turn_to is not None:
            self.turn(moves.turn_to, is_late=False)
        if moves.gather is not None:
            self.park(moves.gather)
            self.gather(moves.gather, 10_000)

    @rule(
        move=st.sampled_from(["turn", "close", "truncate", "reopen", "gather"]),
        segment=_segments,
        is_late=st.booleans(),
    )
    def move_ring(self, move: str, segment: int, *, is_late: bool) -> None:
        """One move out of order, as by a leader that fell asleep over it or a second one."""
        match move:
            case "turn":
                self.turn(segment, is_late=is_late)
            case "close":
                self.close(segment, SECOND if is_late else MINUTE, is_late=is_late)
            case "truncate":
                was_current = self.model.ring.current
                self.turn(segment, is_late=False)
                self.close(was_current, MINUTE, is_late=is_late)
                self.truncate(was_current)
            case "reopen":
                self.reopen(segment)
            case _:
                self.gather(segment, 1 if is_late else 10_000)

    def turn(self, to: int, *, is_late: bool) -> None:
        version = self.model.ring.version - is_late
        answer = self.engine.run(ring.turn(SCHEMA, to=to, version=version, now=self.now))
        assert next(iter(answer), None) == self.model.turn(to, version)

    def close(self, segment: int, length: timedelta, *, is_late: bool) -> None:
        version = self.model.ring.version - is_late
        answer = self.engine.run(
            ring.close(SCHEMA, segment=segment, version=version, length=length, now=self.now)
        )
        assert next(iter(answer), None) == self.model.close(segment, version, length)

    def reopen(self, segment: int) -> None:
        answer = self.engine.run(ring.reopen(SCHEMA, segment=segment))
        assert next(iter(answer), None) == self.model.reopen(segment)

    def truncate(self, segment: int) -> None:
        is_truncated = self.engine.truncate(segment)
        assert is_truncated == self.model.is_drained(segment)

    def gather(self, segment: int, limit: int) -> None:
        moved = self.engine.one(ring.gather(SCHEMA, segment=segment, limit=limit))
        assert moved == self.model.gather(segment, limit)

    def park(self, segment: int) -> None:
        moved = self.engine.one(ring.park(SCHEMA, segment=segment, now=self.now))
        assert moved == self.model.park(segment)

    def unpark(self) -> None:
        assert self.engine.one(ring.unpark(SCHEMA, now=self.now)) == self.model.unpark()


def repeated(once: Callable[[], list[T]]) -> list[T]:
    answers: list[T] = []
    while some := once():
        answers += some
    return answers
