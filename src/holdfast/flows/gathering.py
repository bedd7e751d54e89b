"""`flow.gather(…)`: children, begun in bulk, beside steps and waits, and what becomes of their failures."""

from collections.abc import Awaitable
from typing import Any, Literal

from holdfast.errors import InvalidInput
from holdfast.flows.branches import Branches
from holdfast.flows.calling import Child, outcomes_of
from holdfast.flows.replay import Replay

Failures = Literal["raise", "cancel", "return"]


async def gather(replay: Replay, branches: tuple[Awaitable[Any], ...], failures: Failures) -> list[Any]:
    if failures not in ("raise", "cancel", "return"):
        raise InvalidInput(f'failures is {failures!r}: give "raise", "cancel" or "return"')
    children = [branch for branch in branches if isinstance(branch, Child)]
    others = [branch for branch in branches if not isinstance(branch, Child)]
    is_eager = failures == "cancel"
    if not others:
        results = await outcomes_of(replay, children, is_eager=is_eager)
    else:
        turns = list(others)
        if children:
            turns.insert(0, outcomes_of(replay, children, is_eager=is_eager))
        ended = await Branches(replay.wait_for).run(turns, is_eager=is_eager)
        results = _in_order(branches, ended)
    _raise_first(results, is_failure_given=failures == "return")
    return results


def _raise_first(results: list[Any], *, is_failure_given: bool) -> None:
    for result in results:
        # What ends the run goes first, whatever else has happened.
        if isinstance(result, BaseException) and not isinstance(result, Exception):
            raise result
    for result in results:
        if isinstance(result, BaseException) and not is_failure_given:
            raise result


def _in_order(branches: tuple[Awaitable[Any], ...], ended: list[Any]) -> list[Any]:
    """Children were one branch, the first: back to where each of them was given."""
    left = list(ended)
    together: list[Any] = []
    if any(isinstance(branch, Child) for branch in branches):
        first = left.pop(0)
        count = sum(isinstance(branch, Child) for branch in branches)
        together = [first] * count if isinstance(first, BaseException) else list(first)
    return [(together if isinstance(branch, Child) else left).pop(0) for branch in branches]
