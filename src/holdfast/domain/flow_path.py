"""Replay: which steps of a flow are done, and whether a run takes the path that was recorded.

A run calls the flow's function from its beginning. Steps that are done answer from what was recorded; the
first one that is not runs for real. Steps are named, so code may be edited around those that are done. What
may not happen is that a run does something new while something that was done is still ahead of it: it may be
the same thing under another name, and would be done twice.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

from holdfast.domain.job import KEY_LIMIT, check_name
from holdfast.errors import FlowDiverged, InvalidInput, StepNameTaken

Fault = TypeVar("Fault", FlowDiverged, InvalidInput, StepNameTaken)


class Recorded(NamedTuple):
    """A checkpoint. `place` is its number in the flow's main path; None beside it, where things run at the
    same time and their order means nothing. `branch` is the branch of a `gather` that it belongs to.
    `code` tells which code wrote it. Of a child, its kind and its arguments are known until it is pruned.
    """

    job: int
    name: str
    kind: str
    place: int | None
    code: int | None
    is_done: bool
    failures: int
    value: str | None
    error: str | None
    child: int | None
    left_to_wait: timedelta | None
    child_kind: str | None = None
    child_args: str | None = None
    branch: str | None = None

    @property
    def is_begun(self) -> bool:
        """Whether something has come of it: what is open was only waited for, or is to be tried again, but a
        child that was called is under way. The word of flow.version(…) has no effect of its own.
        """
        return (self.is_done or self.kind == "call") and self.kind != "version"

    @property
    def lane(self) -> str | None:
        if self.branch is None and self.place is not None:
            return MAIN
        return self.branch


class PathPlace(NamedTuple):
    """Where a checkpoint is written: its number in the main path, or the branch that it belongs to; neither
    in a task that the flow's code has made by itself.
    """

    number: int | None = None
    branch: str | None = None


# A lane is the main path, or one branch of a gather: "/2.0" is the first branch of the second gather of the
# main path, "/2.0/1.3" the fourth branch of the first gather in there.
MAIN = ""


def branch_of(lane: str, gather: int, number: int) -> str:
    return f"{lane}/{gather}.{number}"


def _is_beside(lane: str, other: str) -> bool:
    """Whether two lanes run at the same time: in different branches of one gather. Of all others, one waits
    for the other.
    """
    for mine, its in zip(lane.split("/"), other.split("/"), strict=False):
        if mine != its:
            return mine.partition(".")[0] == its.partition(".")[0]
    return False


def full_name(name: str, key: object = None) -> str:
    """A step's name in its flow; in a loop, with the key that tells its turns apart."""
    check_name("step name", name)
    full = name if key is None else f"{name}[{key}]"
    check_name("step name", full, KEY_LIMIT)
    return full


class Path:
    """The path of one run through its flow, compared with the recorded path. Decides only; does no I/O."""

    def __init__(self, recorded: Iterable[Recorded]) -> None:
        self._recorded = {record.name: record for record in recorded}
        self._ahead = {name for name, record in self._recorded.items() if record.is_begun}
        self._taken: list[str] = []
        self._seen: set[str] = set()
        self._gathers: Counter[str] = Counter()
        self._places = 0
        self._fault: FlowDiverged | InvalidInput | None = None

    def is_past(self, lane: str | None) -> bool:
        """Whether something that was done is still ahead of this lane: an earlier run has been further."""
        return any(
            lane is None or its is None or not _is_beside(lane, its)
            for its in (self._recorded[name].lane for name in self._ahead)
        )

    def is_followed(self, place: PathPlace) -> bool:
        """Whether an earlier run has been further than this place, if only to wait there."""
        lane = MAIN if place.number is not None else place.branch
        return self.is_past(lane) or any(
            record.place is not None and record.place > place.number
            for name, record in self._recorded.items()
            if place.number is not None and name not in self._seen
        )

    def recorded(self, name: str) -> Recorded | None:
        """As it was when the run began."""
        return self._recorded.get(name)

    def gather(self, lane: str) -> int:
        """The number of the next gather in a lane."""
        self._gathers[lane] += 1
        return self._gathers[lane]

    def arrive(
        self, name: str, kind: str, *, lane: str | None = MAIN, is_new: bool = False
    ) -> tuple[Recorded | None, PathPlace]:
        """What is recorded of this step, if anything, and its place. `is_new`: its author says that it was
        put in front of what is done.
        """
        [arrived] = self.arrive_all([name], kind, lane=lane, is_new=is_new)
        return arrived

    def arrive_all(
        self, names: Sequence[str], kind: str, *, lane: str | None = MAIN, is_new: bool = False
    ) -> list[tuple[Recorded | None, PathPlace]]:
        """At several things that begin together."""
        records = [self._come_to(name, kind) for name in names]
        if not is_new:
            for name in self._not_done(names, kind):
                self._check_nothing_is_ahead(name, kind, lane)
        if lane != MAIN:
            return [(record, PathPlace(None, lane)) for record in records]
        self._places += len(names) == 1
        place = PathPlace(self._places) if len(names) == 1 else PathPlace(None, MAIN)
        return [(record, place) for record in records]

    def is_cut(self, names: Sequence[str], kind: str, *, lane: str) -> bool:
        """Whether a branch reaches something that it has not done, although it has passed all that it has
        done and what follows its gather was started: an earlier run cut it short there, or it has changed.
        """
        ahead = self._ahead_of(lane).difference(names)
        is_own = any(self._is_within(name, lane) for name in ahead)
        return bool(ahead) and not is_own and bool(self._not_done(names, kind))

    def abandon(self, lane: str) -> None:
        """A branch was cut short: it need not reach what it did before."""
        self._ahead -= {name for name in self._ahead if self._is_within(name, lane)}

    def end(self) -> None:
        """The function has returned: it must have reached everything that was done."""
        self.check()
        if self._ahead:
            raise self.diverged(f"it ended without {self._listed(self._ahead)}, which it has done before")

    def check(self) -> None:
        """Raise again what was found wrong with this run, even if its code has caught it."""
        if self._fault is not None:
            raise self._fault

    def refused(self, fault: Fault) -> Fault:
        """Remember the first fault: later ones follow from it."""
        self._fault = self._fault or fault
        return fault

    def diverged(self, problem: str, advice: str | None = None) -> FlowDiverged:
        done = [record for record in self._recorded.values() if record.is_begun]
        in_order = sorted(done, key=lambda record: (record.place is None, record.place or 0))
        names = [record.name for record in in_order]
        return self.refused(FlowDiverged(problem, recorded=names, taken=self._taken, advice=advice))

    def _come_to(self, name: str, kind: str) -> Recorded | None:
        self.check()
        if name in self._seen:
            raise self.refused(StepNameTaken(name))
        self._seen.add(name)
        self._taken.append(name)
        record = self._recorded.get(name)
        if record is not None and record.kind != kind:
            raise self.diverged(f'"{name}" was recorded as a {record.kind}, and is a {kind} now')
        self._ahead.discard(name)
        return record

    def _not_done(self, names: Iterable[str], kind: str) -> list[str]:
        known = self._recorded
        return [name for name in names if kind != "version" and not (name in known and known[name].is_done)]

    def _check_nothing_is_ahead(self, name: str, kind: str, lane: str | None) -> None:
        passed = set() if lane is None else self._ahead_of(lane)
        if passed:
            # A step is not what an event was called before.
            alike = {each for each in passed if self._recorded[each].kind == kind}
            renamed = (
                f'If "{name}" is the new name of {self._listed(alike)}, keep the old one: it would be done '
                "twice. "
            )
            raise self.diverged(
                f'it reached "{name}", which it has not done, before {self._listed(passed)}, which it has. '
                "Nothing was run",
                f"{renamed if alike else ''}"
                f'If it is a step to be added, flow.step("{name}", …, is_new=True) runs it also in '
                'flows that have been further, and "if await flow.version(…):" leaves it out of them. Or go '
                "back to the code of before. Then resume the flow",
            )

    def _ahead_of(self, lane: str) -> set[str]:
        """What a lane must come to before it does something new. Tasks that the flow's
        code started itself are left out: their order is unknown.
        """
        return {
            name
            for name in self._ahead
            if (its := self._recorded[name].lane) is not None and not _is_beside(lane, its)
        }

    def _is_within(self, name: str, lane: str) -> bool:
        its = self._recorded[name].lane
        return its is not None and f"{its}/".startswith(f"{lane}/")

    @staticmethod
    def _listed(names: Iterable[str]) -> str:
        return ", ".join(f'"{name}"' for name in sorted(names))
