"""Replay: which steps of a flow are done, and whether a run takes the path that was recorded.

A run calls the flow's function from its beginning. Steps that are done answer from what was recorded; the
first one that is not runs for real. Steps are named, so code may be edited around those that are done. What
may not happen is that a run passes by what an earlier one has done: then it is another flow than the one
recorded.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple, TypeVar

from holdfast.domain.job import KEY_LIMIT, check_name
from holdfast.errors import FlowDiverged, InvalidInput, StepNameTaken

Fault = TypeVar("Fault", FlowDiverged, InvalidInput, StepNameTaken)


class Recorded(NamedTuple):
    """A checkpoint. `place` is where in the flow's main path it was written; None beside it, where branches
    run at the same time and their order means nothing. `code` tells which code wrote it. Of a child, its
    kind and its arguments are known until it is pruned.
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


def full_name(name: str, key: object = None) -> str:
    """A step's name in its flow; in a loop, with the key that tells its turns apart."""
    check_name("step name", name)
    full = name if key is None else f"{name}[{key}]"
    check_name("step name", full, KEY_LIMIT)
    return full


class Path:
    """The way of one run through its flow, beside the way that was recorded. Decides, and keeps no time."""

    def __init__(self, recorded: Iterable[Recorded], *, code: int | None) -> None:
        self._recorded = {record.name: record for record in recorded}
        self._ahead = {name for name, record in self._recorded.items() if record.is_done}
        self._taken: list[str] = []
        self._seen: set[str] = set()
        self._code = code
        self._places = 0
        self._fault: FlowDiverged | InvalidInput | None = None

    @property
    def is_replaying(self) -> bool:
        """Whether something that was done is still ahead."""
        return bool(self._ahead)

    def arrive(self, name: str, kind: str, *, is_main: bool) -> tuple[Recorded | None, int | None]:
        """What is recorded of this step, if anything, and its place. `is_main`: not in a branch."""
        self.check()
        if name in self._seen:
            raise self.refused(StepNameTaken(name))
        self._seen.add(name)
        self._taken.append(name)
        self._places += is_main
        place = self._places if is_main else None
        record = self._recorded.get(name)
        if record is not None and record.kind != kind:
            raise self.diverged(f'"{name}" was recorded as a {record.kind}, and is a {kind} now')
        if (record is None or not record.is_done) and is_main:
            self._check_nothing_is_passed_by(name)
        self._ahead.discard(name)
        return record, place

    def end(self) -> None:
        """The function has returned: nothing that was done may have been passed by."""
        self.check()
        if self._ahead:
            raise self.diverged(f"it ended without {self._listed(self._ahead)}, which was done before")

    def check(self) -> None:
        """Once a run was found to be wrong it stays so, whatever its code catches."""
        if self._fault is not None:
            raise self._fault

    def refused(self, fault: Fault) -> Fault:
        """The first one counts: others follow from it."""
        self._fault = self._fault or fault
        return fault

    def _check_nothing_is_passed_by(self, name: str) -> None:
        """The very same code has been further than this: then it was not the same way. Other code may have a
        new step in front of what was done, and comes to that later, or is found out at its end.
        """
        passed = {
            ahead
            for ahead in self._ahead
            if self._recorded[ahead].place is not None
            and self._code is not None
            and self._recorded[ahead].code == self._code
        }
        if passed:
            raise self.diverged(f'it came to "{name}" before {self._listed(passed)}, which was done before')

    def diverged(self, problem: str) -> FlowDiverged:
        done = [record for record in self._recorded.values() if record.is_done]
        in_order = sorted(done, key=lambda record: (record.place is None, record.place or 0))
        names = [record.name for record in in_order]
        return self.refused(FlowDiverged(problem, recorded=names, taken=self._taken))

    @staticmethod
    def _listed(names: Iterable[str]) -> str:
        return ", ".join(f'"{name}"' for name in sorted(names))
