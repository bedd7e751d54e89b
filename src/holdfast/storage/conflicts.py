"""What becomes of new jobs whose unique key is taken: refused, put in place of the one that has it, or that
one's successors.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from holdfast.domain.job import NewJob
from holdfast.errors import DuplicateJob
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.statement import Statement

if TYPE_CHECKING:
    from holdfast.storage.jobs import Burst, Enqueued

_ROUNDS = 3


class Writing(Protocol):
    """The statements with which the jobs were written, and are written again."""

    def of(
        self,
        chunk: Sequence[NewJob],
        numbers: Sequence[int] | None = None,
        *,
        taken_from: Mapping[int, datetime | None] | None = None,
    ) -> "Statement[Enqueued]": ...
    def in_place_of(self, jobs: Sequence[tuple[int, NewJob]]) -> Statement[int]: ...
    def bursts(self, jobs: Iterable[int]) -> "Statement[Burst]": ...
    def superseding(self, jobs: Mapping[int, int]) -> Statement[int]: ...


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Of jobs that were written with one statement, and the rows that it answered."""

    jobs: Sequence[NewJob]
    rows: "list[Enqueued]"
    writing: Writing

    def refuse(self) -> None:
        for place in self._existing(is_debounced=False):
            new, job = self.jobs[place], self.rows[place].job
            raise DuplicateJob(key=new.unique_key or "", queue=new.policy.queue, job=job)

    def replace_existing(self) -> Conversation[None]:
        """Replace what still waits. A holder that ended meanwhile has left its key, so the rest is enqueued
        again; one that runs counts as existing.
        """
        left = self._existing(is_debounced=False)
        for _ in range(_ROUNDS):
            left = yield from self._not_replaced(left)
            if not left:
                return
            again = yield from ask(self.writing.of([self.jobs[place] for place in left], left))
            for place, row in zip(left, again, strict=True):
                self.rows[place] = row
            left = [place for place in left if not self.rows[place].is_new]

    def debounce(self) -> Conversation[None]:
        """Replace what still waits, and let new jobs take over the keys of all others. In a transaction one
        round is enough, since the enqueue has locked the keys. Without one another caller may come between
        two statements: the next round begins with what that one has written.
        """
        left = self._existing(is_debounced=True)
        while left:
            left = yield from self._not_replaced(left)
            if not left:
                return
            last = {self.rows[place].job: self.jobs[place] for place in left}
            # One that has not begun was moving: max_wait counts from its first enqueue, as for a waiting one.
            since = {burst.job: burst.since for burst in (yield from ask(self.writing.bursts(last)))}
            taken_from = {job: since.get(job) for job in last}
            again = yield from ask(self.writing.of(list(last.values()), taken_from=taken_from))
            answers = dict(zip(last, again, strict=True))
            taken = {holder: row.job for holder, row in answers.items() if row.is_new}
            if taken:
                yield from ask(self.writing.superseding(taken))
            missed = [place for place in left if not answers[self.rows[place].job].is_new]
            for place in left:
                holder = self.rows[place].job
                self.rows[place] = answers[holder]
                # Of several with one key only the first is new, as if they had come one after the other.
                answers[holder] = answers[holder]._replace(is_new=False)
            left = missed

    def _existing(self, *, is_debounced: bool) -> list[int]:
        """The places of jobs for which another one stands."""
        return [
            place
            for place, row in enumerate(self.rows)
            if not row.is_new and (self.jobs[place].debounce is not None) == is_debounced
        ]

    def _not_replaced(self, places: Sequence[int]) -> Conversation[list[int]]:
        """Of several jobs for one holder, the last is put in its place."""
        last = {self.rows[place].job: self.jobs[place] for place in places}
        if not last:
            return []
        pairs = sorted(last.items(), key=lambda pair: (pair[1].policy.queue, pair[1].unique_key or ""))
        replaced = set((yield from ask(self.writing.in_place_of(pairs))))
        return [place for place in places if self.rows[place].job not in replaced]
