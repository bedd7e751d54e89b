"""Children of a flow: jobs that it begins, or finds begun, and awaits, alone or many at once."""

import asyncio
import inspect
import json
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, Generic, TypeVar

from holdfast.codec.complaints import quoted
from holdfast.codec.signature import Signature
from holdfast.domain.failure import recorded_error
from holdfast.domain.flow_path import PathPlace, Recorded, full_name
from holdfast.domain.job import NewJob
from holdfast.domain.states import final_state
from holdfast.errors import ChildFailed, InvalidInput, Undecodable
from holdfast.flows.replay import Replay
from holdfast.flows.step_values import Typed
from holdfast.worker.job_kind import Kind
from holdfast.worker.outgoing_jobs import OutgoingJobs

R_co = TypeVar("R_co", covariant=True)

_SETTLE_SECONDS = 0.05


class ChildJob(Generic[R_co]):
    """A job that the flow begins when this is awaited, by itself or in `flow.gather(…)`. Gives its result."""

    def __init__(self, replay: Replay, declared: Kind, job: NewJob) -> None:
        kind = declared.name
        if job.unique_key is not None:
            raise InvalidInput(
                f"{kind} has a unique key, so it may be another's job: enqueue it in a step that returns "
                "the id of its handle, and give this to flow.wait_job(id, type=…); or call it with "
                "using(unique=False), if its kind has the key"
            )
        self._replay = replay
        self.declared = declared
        self.kind = kind
        self.signature = declared.signature
        self.job = job
        self.name: str | None = None

    def named(self, name: str, *, key: object = None) -> "ChildJob[R_co]":
        """Name this child in the flow, when the job's own name is not enough: called twice, or in a loop."""
        self.name = full_name(name, key)
        return self

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._result().__await__()

    async def _result(self) -> R_co:
        [outcome] = await outcomes_of(self._replay, [self], is_eager=False)
        result: R_co = _or_raise(outcome)
        return result


def check_job(job: object) -> None:
    if inspect.iscoroutine(job):
        job.close()
        raise InvalidInput(
            f"{job.__name__}(…) is already called: give flow.call the job, and its arguments after it: "
            f"{job.__name__}, …"
        )
    if isinstance(job, str):
        raise InvalidInput(
            f"flow.call takes the job first, and .named(…) names the child: flow.call(job, …).named({job!r})"
        )
    if not hasattr(job, "call"):
        name = getattr(job, "__name__", repr(job))
        raise InvalidInput(
            f"{name} is not a job: write @app.job above it, or run it as a step, flow.step(name, {name}, …)"
        )


async def outcomes_of(replay: Replay, children: Sequence[ChildJob[Any]], *, is_eager: bool) -> list[Any]:
    """Begin those that have not begun, and wait for all, or, if it is eager, until one of them fails."""
    names = _name_all(children)
    arrived = await replay.arrive_all(names, "call") if names else []
    records = {record.name: record for record, _ in arrived if record is not None}
    for name, child in zip(names, children, strict=True):
        if name in records:
            _check_the_same(replay, records[name], name, child)
    new = [(name, child) for name, child in zip(names, children, strict=True) if name not in records]
    begun: list[int] = []
    if new:
        with OutgoingJobs((child.declared, child.job) for _, child in new) as outgoing:
            calls = [(name, job) for (name, _), job in zip(new, outgoing.jobs, strict=True)]
            begun = await replay.recorder.call(
                replay.fence, calls, bunch=names[0], place=arrived[0][1], code=replay.code
            )
            outgoing.written((job, True) for job in begun)
    if new or not all(records[name].is_done for name in names):
        under_way = [record.child for record in records.values() if record.child and not record.is_done]
        replay.children[names[0]] = under_way + begun
        await replay.wait_until_over(replay.wait(names[0], "call", PathPlace(), is_eager=is_eager))
        records = await replay.records()
    left = [record.child for name in names if not (record := records[name]).is_done and record.child]
    if left:
        await replay.recorder.cancel(left, "another child of its flow has failed")
    outcomes = [
        _outcome_of(records[name], child.signature)
        for name, child in zip(names, children, strict=True)
        if records[name].is_done
    ]
    return list(map(_or_raise, outcomes)) if left or is_eager else outcomes


async def result_of(
    replay: Replay, child: int, name: str, *, typed: Typed | None, signature: Signature | None
) -> Any:
    """Of a job that others have begun: as the type says, or else as the signature, or as plain JSON."""
    record, place = await replay.arrive(name, "call")
    if record is None:
        await replay.recorder.adopt(replay.fence, child, name, place=place, code=replay.code)
        # A settle of that job that is under way does not know of us yet: it is committed by then. Should
        # it take longer, the leader's sweep finds its end.
        await asyncio.sleep(_SETTLE_SECONDS)
    elif record.child != child:
        raise replay.path.diverged(f'"{name}" was recorded as job {record.child}, and is job {child} now')
    if record is None or not record.is_done:
        replay.children[name] = [child]
        await replay.wait_until_over(replay.wait(name, "call", place))
        record = (await replay.records())[name]
    if typed is not None and record.error is None:
        return typed.decode(f"the result of job {child}", record.value)
    return _or_raise(_outcome_of(record, signature))


def _name_all(children: Sequence[ChildJob[Any]]) -> list[str]:
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


def _check_the_same(replay: Replay, record: Recorded, name: str, child: ChildJob[Any]) -> None:
    if change := _change_of(record, name, child, is_same_code=record.code == replay.code):
        raise replay.path.diverged(change)


def _change_of(record: Recorded, name: str, child: ChildJob[Any], *, is_same_code: bool) -> str | None:
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
        # The job has other parameters now, so the two cannot be compared.
        return True


def _outcome_of(record: Recorded, signature: Signature | None) -> Any | ChildFailed:
    """The child's result, as it was stored if its type is not known, or how it ended without one."""
    if record.error is None:
        if signature is not None:
            return signature.decode_result(record.value)
        return None if record.value is None else json.loads(record.value)
    error = recorded_error(record.error)
    state = final_state(error.pop("state", "failed")) or "unknown"
    return ChildFailed(record.name, job=record.child or 0, state=state, error=error)


def _or_raise(outcome: Any) -> Any:
    if isinstance(outcome, ChildFailed):
        raise outcome
    return outcome
