"""Deletes at once what the leader's pruner would delete in its time: jobs that ended and were kept for as
long as their retention says. In small transactions: it can be stopped anywhere, and disturbs no worker.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import get_args

from holdfast.domain.duration import compact, duration
from holdfast.domain.job import check_text
from holdfast.domain.states import FinalState
from holdfast.errors import InvalidInput
from holdfast.insights.step_taker import Steps, take, take_blocking
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import put_audit
from holdfast.storage.chores import ChosenPass, count_prunable, prune_chosen

CAP = 10_000
_BATCH = 500
_PAGE = 10_000
"""How many jobs one statement looks at, when few of them are asked for."""

OnProgress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Prunable:
    """What may go: `counts` by how the jobs ended, 10,000 in all at most; `is_capped` if there are more."""

    counts: Mapping[FinalState, int]
    is_capped: bool

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which of the jobs that may go: all of them, unless this narrows it."""

    older_than: timedelta | None = None
    states: tuple[FinalState, ...] | None = None

    @classmethod
    def read(cls, older_than: object, states: object) -> "Chosen":
        length = None if older_than is None else duration(older_than, name="older_than")
        if length is not None and length < timedelta():
            raise InvalidInput(f"older_than is {compact(length)}: it must not be negative")
        if states is None:
            return cls(length)
        named = [states] if isinstance(states, str) else states
        known = get_args(FinalState)
        if not isinstance(named, Collection) or not named or not set(named) <= set(known):
            raise InvalidInput(f"states is {states!r}: give some of {', '.join(known)}")
        return cls(length, tuple(each for each in known if each in named))

    def __str__(self) -> str:
        kinds = "ended jobs" if self.states is None else f"{' and '.join(self.states)} jobs"
        age = "" if self.older_than is None else f" that ended more than {compact(self.older_than)} ago"
        return f"{kinds}{age} past their retention"


def _in_order(counts: Mapping[FinalState, int]) -> dict[FinalState, int]:
    return {state: counts[state] for state in get_args(FinalState) if counts.get(state)}


class Pruning:
    """What `app.prune` and `app.prunable` do."""

    def __init__(self, schema: Schema, holder: Holder) -> None:
        self._schema = schema
        self._holder = holder

    async def count(self, chosen: Chosen) -> Prunable:
        return await self._holder.look(self._counted(chosen), None)

    def count_sync(self, chosen: Chosen) -> Prunable:
        return self._holder.look_sync(self._counted(chosen), None)

    async def run(self, chosen: Chosen, by: str, reason: str | None, on_progress: OnProgress) -> int:
        return await take(self._holder, self._steps(chosen, by, reason, on_progress))

    def run_sync(self, chosen: Chosen, by: str, reason: str | None, on_progress: OnProgress) -> int:
        return take_blocking(self._holder, self._steps(chosen, by, reason, on_progress))

    def _steps(self, chosen: Chosen, by: str, reason: str | None, on_progress: OnProgress) -> Steps[int]:
        """Once over all that may go, a page at a time. What the leader has locked, which prunes too, is
        passed over.
        """
        yield self._remembered(chosen, by, reason)
        deleted = 0
        done = ChosenPass(0, None, is_more=True)
        while done.is_more:
            done = yield self._batch(chosen, done.seen)
            if done.moved:
                deleted += done.moved
                on_progress(deleted)
        return deleted

    def _counted(self, chosen: Chosen) -> Conversation[Prunable]:
        counts: Counter[FinalState] = Counter()
        since: datetime | None = None
        is_more = True
        while is_more:
            rows = yield from ask(
                count_prunable(
                    self._schema,
                    since=since,
                    cap=CAP + 1 - counts.total(),
                    page=_PAGE,
                    states=chosen.states,
                    older_than=chosen.older_than,
                )
            )
            for row in rows:
                if row.outcome is None:
                    since, is_more = row.seen, bool(row.jobs)
                else:
                    counts[row.outcome] += row.jobs
            if counts.total() > CAP:
                counts[next(iter(counts))] -= 1
                return Prunable(_in_order(counts), is_capped=True)
        return Prunable(_in_order(counts), is_capped=False)

    def _remembered(self, chosen: Chosen, by: str, reason: str | None) -> Conversation[None]:
        """Before the first job goes, so that nothing goes unaudited, whatever ends this process."""
        if reason is not None:
            check_text("reason", reason)
        entry = put_audit(self._schema, action="prune", by=by, target=str(chosen), reason=reason, counts={})
        yield from ask(entry)

    def _batch(self, chosen: Chosen, since: datetime | None) -> Conversation[ChosenPass]:
        [done] = yield from ask(
            prune_chosen(
                self._schema,
                since=since,
                limit=_BATCH,
                page=_BATCH if chosen == Chosen() else _PAGE,
                states=chosen.states,
                older_than=chosen.older_than,
            )
        )
        return done
