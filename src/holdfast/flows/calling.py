"""Children of a flow: jobs that it begins and awaits, alone or many at once."""

import json
from collections import Counter
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.codec.signature import Signature
from holdfast.codec.wording import quoted
from holdfast.domain.flow import Recorded, full_name
from holdfast.domain.job import NewJob
from holdfast.errors import ChildFailed, InvalidInput, Undecodable

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

R_co = TypeVar("R_co", covariant=True)


class Child(Generic[R_co]):
    """A job that the flow begins when this is awaited, by itself or in `flow.gather(…)`. Gives its result."""

    def __init__(self, flow: "Flow", kind: str, signature: Signature, job: NewJob) -> None:
        if job.unique_key is not None:
            raise InvalidInput(
                f"{kind} has a unique key, so it may be another's job: enqueue it in a step that returns "
                "the id of its handle, and give this to flow.wait_job(id, type=…)"
            )
        self._flow = flow
        self.kind = kind
        self.signature = signature
        self.job = job
        self.name: str | None = None

    def named(self, name: str, *, key: object = None) -> "Child[R_co]":
        """What the flow calls it, where the job's own name is not enough: twice, or in a loop."""
        self.name = full_name(name, key)
        return self

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._flow._child(self).__await__()  # noqa: SLF001  # its face


def name_all(children: Sequence[Child[Any]]) -> list[str]:
    """Those without a name are called as their job, counted if there are several of it."""
    kinds = Counter(child.kind for child in children if child.name is None)
    counted: Counter[str] = Counter()
    names = []
    for child in children:
        name = child.name
        if name is None:
            name = full_name(child.kind, counted[child.kind] if kinds[child.kind] > 1 else None)
            counted[child.kind] += 1
        names.append(name)
    return names


def change_of(record: Recorded, name: str, child: Child[Any], *, is_same_code: bool) -> str | None:
    """What is called under this name now, and was not before. A name is the author's word that it is the same
    call, also after the code has changed; a number only says which one it was in its order.
    """
    is_numbered = child.name is None and name != child.kind
    kind, args = record.child_kind, record.child_args
    if kind is None or args is None or not (is_same_code or is_numbered):
        return None
    if kind == child.kind and _means_the_same(child.signature, args, child.job.args):
        return None
    now = f"{child.kind}({quoted(child.job.args)})"
    return f'"{name}" was recorded as {kind}({quoted(args)}), and is {now} now'


def _means_the_same(signature: Signature, recorded: str, given: str) -> bool:
    if json.loads(recorded) == json.loads(given):
        return True
    try:
        return signature.keyed(recorded) == signature.keyed(given)
    except Undecodable:
        # The job has other parameters now: there is no telling.
        return True


def outcome_of(record: Recorded, signature: Signature | None) -> Any | ChildFailed:
    """The child's result, as it was stored if its type is not known, or how it ended without one."""
    if record.error is None:
        if signature is not None:
            return signature.decode_result(record.value)
        return None if record.value is None else json.loads(record.value)
    error: dict[str, Any] = json.loads(record.error)
    state = str(error.pop("state", "failed"))
    return ChildFailed(record.name, job=record.child or 0, state=state, error=error)
