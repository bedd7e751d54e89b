"""`app.flows`: operators' view of flows and machines, and their methods. Every method exists twice: awaited,
and blocking with `_sync`; with `conn` it is part of the caller's transaction.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial

from holdfast.domain.duration import Length, duration
from holdfast.domain.job import Target, check_text, id_of
from holdfast.domain.outcome import ON_REQUEST
from holdfast.domain.redaction import Redactions
from holdfast.domain.retention import EVENTS, Retention
from holdfast.domain.states import JOB_STATES, JobState
from holdfast.errors import Conflict, FlowNotFailed, InvalidInput, JobNotFound, NotAFlow, StepNotFound
from holdfast.flows.event_payload import payload_text
from holdfast.flows.records import (
    FlowRecord,
    FlowSummary,
    is_machine_args,
    masked,
    record_of,
    summary_of,
)
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.audit import PYTHON, check_signed, put_audit
from holdfast.storage.flows import emit
from holdfast.storage.flows_shown import FlowRow, flows, is_flow, retry_from, steps
from holdfast.storage.job_lookup import Found, find, history
from holdfast.storage.kinds import redactions
from holdfast.storage.operators import cancel, resume_dead, retry_dead
from holdfast.worker.cancel_log import log_cancelled

# Named out here: inside the class, `list` is the verb.
ManyFlows = list[FlowSummary]


class Flows:
    """`kinds` are those of the app that are flows: of these, also what has not begun is known to be one.
    Every action leaves an entry in the audit: `by` is who acts, `reason` why.
    """

    def __init__(
        self,
        schema: Schema,
        holder: Holder,
        kinds: Callable[[], Iterable[str]],
        retention: Callable[[], Retention],
        declared: Callable[[], Redactions],
    ) -> None:
        self._schema = schema
        self._holder = holder
        self._kinds = kinds
        self._retention = retention
        self._declared = declared

    async def list(
        self,
        *,
        kind: str | None = None,
        state: JobState | None = None,
        before: int | None = None,
        limit: int = 100,
        conn: object = None,
    ) -> ManyFlows:
        """Flows, newest first; the next page is `before` the id of the last one. Looks through the latest
        10,000. Of other apps' kinds only those that have begun, unless `kind` names it.
        """
        return await self._holder.look(self._list(kind, state, before, limit), conn)

    def list_sync(
        self,
        *,
        kind: str | None = None,
        state: JobState | None = None,
        before: int | None = None,
        limit: int = 100,
        conn: object = None,
    ) -> ManyFlows:
        return self._holder.look_sync(self._list(kind, state, before, limit), conn)

    async def show(self, flow: Target, *, conn: object = None) -> FlowRecord:
        """One flow in full: its steps, waits, children and history. JobNotFound if there is none."""
        return await self._holder.look(self._show(id_of(flow)), conn)

    def show_sync(self, flow: Target, *, conn: object = None) -> FlowRecord:
        return self._holder.look_sync(self._show(id_of(flow)), conn)

    async def resume(
        self, flow: Target, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> None:
        """Continue a failed flow where it stopped, with one more attempt. FlowNotFailed for any other."""
        await self._holder.hold(self._resume(id_of(flow), by, reason), conn)

    def resume_sync(
        self, flow: Target, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> None:
        self._holder.hold_sync(self._resume(id_of(flow), by, reason), conn)

    async def retry(
        self,
        flow: Target,
        *,
        from_step: str | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> None:
        """Run a failed flow again from a step on, or from its start, with all attempts. Earlier steps stay
        done. StepNotFound if it has not done such a step.
        """
        await self._holder.hold(self._retry(id_of(flow), from_step, by, reason), conn)

    def retry_sync(
        self,
        flow: Target,
        *,
        from_step: str | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> None:
        self._holder.hold_sync(self._retry(id_of(flow), from_step, by, reason), conn)

    async def cancel(
        self, flow: Target, *, reason: str = ON_REQUEST, by: str = PYTHON, conn: object = None
    ) -> str:
        """End a flow and its open children: cancelled, requested (it runs), final or busy."""
        return await self._holder.hold(self._cancel(id_of(flow), by, reason), conn)

    def cancel_sync(
        self, flow: Target, *, reason: str = ON_REQUEST, by: str = PYTHON, conn: object = None
    ) -> str:
        return self._holder.hold_sync(self._cancel(id_of(flow), by, reason), conn)

    async def emit(
        self,
        event: str,
        payload: object = None,
        *,
        keep: Length = EVENTS,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> None:
        """Send an event in place of the program that should have sent it: `app.emit`, with an entry in the
        audit. The entry holds the event's name, not its payload.
        """
        await self._holder.hold(self._emit(event, payload, keep, by, reason), conn)

    def emit_sync(
        self,
        event: str,
        payload: object = None,
        *,
        keep: Length = EVENTS,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> None:
        self._holder.hold_sync(self._emit(event, payload, keep, by, reason), conn)

    def _list(
        self, kind: str | None, state: JobState | None, before: int | None, limit: int
    ) -> Conversation[ManyFlows]:
        """Checked before anything is asked: a conversation only begins when it is held."""
        if state is not None and state not in JOB_STATES:
            raise InvalidInput(f"state is {state!r}: give one of {', '.join(JOB_STATES)}")
        known = tuple(self._kinds())
        return _page(flows(self._schema, kind=kind, known=known, state=state, before=before, limit=limit))

    def _show(self, flow: int) -> Conversation[FlowRecord]:
        found = yield from self._found(flow, f"app.handle({flow}).status()")
        record = yield from _record(self._schema, found)
        known = yield from redactions(self._schema, [found.kind], self._declared())
        return masked(record, known.of(found.kind))

    def _resume(self, flow: int, by: str, reason: str | None) -> Conversation[None]:
        check_signed(by, reason)
        yield from self._found(flow, f"app.jobs.resume({flow})")
        answers = yield from resume_dead(self._schema, [flow])
        yield from _check_taken_up(self._schema, flow, answers[flow])
        yield from self._remember("resume", f"flow {flow}", by, reason, answers[flow])

    def _retry(self, flow: int, step: str | None, by: str, reason: str | None) -> Conversation[None]:
        check_signed(by, reason)
        found = yield from self._found(flow, f"app.jobs.retry({flow})")
        yield from _retry(self._schema, found, step)
        action = "retry" if step is None else f"retry from {step}"
        yield from self._remember(action, f"flow {flow}", by, reason, "retried")

    def _cancel(self, flow: int, by: str, reason: str) -> Conversation[str]:
        check_text("reason", reason)
        check_signed(by, reason)
        yield from self._found(flow, f"app.jobs.cancel({flow})")
        on_ended = partial(log_cancelled, reason)
        answers = yield from cancel(
            self._schema, [flow], retention=self._retention(), reason=reason, on_ended=on_ended
        )
        if answers[flow] == "unknown":
            raise JobNotFound(flow)
        yield from self._remember("cancel", f"flow {flow}", by, reason, answers[flow])
        return answers[flow]

    def _emit(
        self, event: str, payload: object, keep: Length, by: str, reason: str | None
    ) -> Conversation[None]:
        """Checked before anything is asked: a conversation only begins when it is held."""
        text, length = payload_text(event, payload), duration(keep, name="keep")
        return self._emitted(emit(self._schema, [(event, text)], notify=True, keep=length), event, by, reason)

    def _emitted(
        self, emitting: Statement[int], event: str, by: str, reason: str | None
    ) -> Conversation[None]:
        check_signed(by, reason)
        yield from ask(emitting)
        yield from self._remember("emit", f"event {event}", by, reason, "sent")

    def _remember(
        self, action: str, target: str, by: str, reason: str | None, answer: str
    ) -> Conversation[None]:
        counts = {answer: 1}
        yield from ask(
            put_audit(self._schema, action=action, by=by, target=target, reason=reason, counts=counts)
        )

    def _found(self, flow: int, instead: str) -> Conversation[Found]:
        """The flow; a plain job is refused, with what to use `instead`."""
        found = yield from ask(find(self._schema, flow))
        if not found:
            raise JobNotFound(flow)
        kind = found[0].kind
        if kind not in set(self._kinds()) and not is_machine_args(json.loads(found[0].args)):
            [is_one] = yield from ask(is_flow(self._schema, flow, kind))
            if not is_one:
                raise NotAFlow(flow, kind, instead=instead)
        return found[0]


def _page(asked: Statement[FlowRow]) -> Conversation[ManyFlows]:
    return [summary_of(row) for row in (yield from ask(asked))]


def _record(schema: Schema, found: Found) -> Conversation[FlowRecord]:
    rows = yield from ask(steps(schema, found.job))
    ledger = yield from ask(history(schema, found.job))
    return record_of(found, rows, ledger)


def _retry(schema: Schema, found: Found, step: str | None) -> Conversation[None]:
    """A machine that has not left its first step has nothing stored: to retry from that step is to
    retry from the start.
    """
    flow = found.job
    if step is not None:
        record = yield from _record(schema, found)
        is_first = record.is_machine and record.args.get("step") == step == record.steps[0].name
        if not (is_first and len(record.steps) == 1):
            answer = yield from retry_from(schema, flow, step)
            if answer == "unknown" and record.state == "failed":
                raise StepNotFound(flow, step, done=[each.name for each in record.steps])
            yield from _check_taken_up(schema, flow, "unknown" if answer == "alive" else answer)
            return
    answers = yield from retry_dead(schema, [flow])
    yield from _check_taken_up(schema, flow, answers[flow])


def _check_taken_up(schema: Schema, flow: int, answer: str) -> Conversation[None]:
    """Raises inside the transaction, so that what was changed so far is rolled back."""
    if answer in ("resumed", "retried"):
        return
    found = yield from ask(find(schema, flow))
    if not found:
        raise JobNotFound(flow)
    if answer == "duplicate":
        raise Conflict(
            f'an active job holds the unique key "{found[0].unique_key}" of flow {flow}: try again when it '
            "has ended"
        )
    if found[0].state == "failed":
        raise Conflict(f"flow {flow} is being changed by another call: try again")
    raise FlowNotFailed(flow, found[0].state)
