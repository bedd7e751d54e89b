"""Flows that would wait for themselves: one that keeps a permit while it waits for a child, and the child
needs a permit of the same limit. Refused where it can be seen: in the flow's source when a worker starts, and
when the flow calls the child. What neither sees, such as a job that is awaited by its id, the leader finds.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast.domain.limit_use import LimitUse
from holdfast.domain.limits import Limit
from holdfast.errors import InvalidInput
from holdfast.worker.job_kind import Kind


def check_source(flow: Kind) -> None:
    """By what stands in its source as `flow.call(job, …)`. The keys are not known there, so only limits count
    that all of their jobs share.
    """
    held = _held(flow)
    if not held:
        return
    for child in _called_in(flow.function):
        limits = {} if child.limits is None else child.limits.declared
        for name in sorted(held.keys() & limits.keys()):
            if held[name].spec.total is not None:
                raise InvalidInput(_refusal(flow.name, child.name, name))


def check_child(flow: Kind, args: str, child: Kind, uses: Sequence[LimitUse]) -> None:
    """Before a flow with these arguments begins a child that has to pass these limits."""
    held = _held(flow)
    for use in uses:
        limit = held.get(use.limit)
        if limit is not None and (limit.spec.total is not None or use.key in _keys(flow, args, use.limit)):
            raise InvalidInput(_refusal(flow.name, child.name, use.limit))


def _held(flow: Kind) -> dict[str, Limit]:
    """The limits whose permits it keeps while it waits."""
    if flow.limits is None:
        return {}
    return {name: limit for name, limit in flow.limits.declared.items() if limit.spec.hold == "job"}


def _keys(flow: Kind, args: str, limit: str) -> list[str]:
    try:
        uses = () if flow.limits is None else flow.limits.of(args)
    except InvalidInput:  # it was enqueued with a key of its own
        return []
    return [use.key for use in uses if use.limit == limit]


def _refusal(flow: str, child: str, limit: str) -> str:
    return (
        f'{flow} holds a permit of limit "{limit}" until it has ended (hold="job"), and calls {child}, which '
        'needs one too: it would wait for itself. Use hold="run", or give one of them another limit'
    )


def _called_in(function: Callable[..., Any]) -> Iterator[Kind]:
    """The kinds that a flow names in `flow.call(…)`, as far as its source is at hand and says it plainly."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        known = inspect.getclosurevars(function)
        first = next(iter(inspect.signature(function).parameters))
    except (OSError, SyntaxError, TypeError, ValueError, StopIteration):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=flow), attr="call"), args=[ast.Name(id=child), *_]
            ) if flow == first:
                kind = getattr(known.nonlocals.get(child, known.globals.get(child)), "kind", None)
                if isinstance(kind, Kind):
                    yield kind
