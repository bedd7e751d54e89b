"""`flow.gather(…)`: starts children in bulk, next to steps and waits, and decides about their failures."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Literal

from holdfast.domain.flow_path import branch_of
from holdfast.errors import InvalidInput
from holdfast.flows.branches import Branches
from holdfast.flows.child_jobs import ChildJob, outcomes_of
from holdfast.flows.replay import Replay

Failures = Literal["raise", "cancel", "return"]

# The number of the branch that all children of a gather are together: others count from 0 in any case.
_CHILDREN = -1


async def gather(replay: Replay, branches: tuple[Awaitable[Any], ...], failures: Failures) -> list[Any]:
    if failures not in ("raise", "cancel", "return"):
        raise InvalidInput(f'failures is {failures!r}: give "raise", "cancel" or "return"')
    children = [branch for branch in branches if isinstance(branch, ChildJob)]
    others = [branch for branch in branches if not isinstance(branch, ChildJob)]
    is_eager = failures == "cancel"
    if not others:
        results = await outcomes_of(replay, children, is_eager=is_eager)
    else:
        turns = list(enumerate(others))
        if children:
            turns.insert(0, (_CHILDREN, outcomes_of(replay, children, is_eager=is_eager)))
        ended = await _beside(replay, turns, is_eager=is_eager)
        results = _in_order(branches, ended)
    _raise_first(results, is_failure_given=failures == "return")
    return results


async def _beside(
    replay: Replay, turns: list[tuple[int, Awaitable[Any]]], *, is_eager: bool
) -> list[Any | BaseException]:
    lane = replay.lane
    gather = None if lane is None else replay.path.gather(lane)
    lanes = [
        None if lane is None or gather is None else branch_of(lane, gather, number) for number, _ in turns
    ]
    branches = Branches(replay.wait_for, is_eager=is_eager)
    ended = await branches.run([turn for _, turn in turns], lanes)
    for cut in branches.cut:
        if (its := lanes[cut]) is not None:
            replay.path.abandon(its)
    return ended


def _raise_first(results: list[Any], *, is_failure_given: bool) -> None:
    raised = [result for result in results if isinstance(result, BaseException)]
    # What ends the run goes first, whatever else has happened; a branch that was cut short says nothing.
    for result in sorted(raised, key=_rank):
        if not (is_failure_given and isinstance(result, Exception)):
            raise result


def _rank(raised: BaseException) -> int:
    if isinstance(raised, asyncio.CancelledError):
        return 2
    return 1 if isinstance(raised, Exception) else 0


def _in_order(branches: tuple[Awaitable[Any], ...], ended: list[Any]) -> list[Any]:
    """Children were one branch, the first: back to where each of them was given."""
    left = list(ended)
    together: list[Any] = []
    if any(isinstance(branch, ChildJob) for branch in branches):
        first = left.pop(0)
        count = sum(isinstance(branch, ChildJob) for branch in branches)
        together = [first] * count if isinstance(first, BaseException) else list(first)
    return [(together if isinstance(branch, ChildJob) else left).pop(0) for branch in branches]
