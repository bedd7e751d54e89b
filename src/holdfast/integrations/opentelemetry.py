"""Spans of OpenTelemetry for enqueues, runs and steps: `App(middleware=[Tracing()])`.

The context of the span that enqueues travels with the job, in its headers, so that the job's runs belong to
the same trace, on whichever worker. Names and attributes follow the semantic conventions for messaging.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import Token
from types import TracebackType

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
)

import holdfast
from holdfast.worker.attempt_outcome import shown_failure
from holdfast.worker.context import Context, claimed_of
from holdfast.worker.handler_requests import HandlerRequest
from holdfast.worker.middleware import Middleware, OutgoingJob

Attributes = Mapping[str, str | int | Sequence[str]]

_TRACEPARENT = "traceparent"
_UNSAMPLED = re.compile(
    "00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f][02468ace])", re.ASCII
).fullmatch


class Tracing(Middleware):
    """`provider`: whose spans, by default those of the global provider, which Logfire and Sentry set up by
    themselves. `new_traces`: a job's runs begin traces of their own, linked to that of the enqueue, for jobs
    that run long after it.
    """

    def __init__(self, provider: TracerProvider | None = None, *, new_traces: bool = False) -> None:
        self._spans = _Spans(provider)
        self._new_traces = new_traces

    @contextmanager
    def enqueuing(self, jobs: Sequence[OutgoingJob]) -> Iterator[None]:
        """One span, and one context for all of them."""
        if self._spans.are_dropped_below(trace.get_current_span().get_span_context()):
            _send_context(jobs)
            yield
            return
        queues = {job.queue for job in jobs}
        queue = queues.pop() if len(queues) == 1 else None
        with self._spans.tracer.start_as_current_span(
            f"send {queue}" if queue else "send",
            kind=SpanKind.PRODUCER,
            attributes=_messaging("send", queue),
        ) as span:
            _send_context(jobs)
            if span.is_recording():
                span.set_attribute("holdfast.job.kind", jobs[0].kind if len(jobs) == 1 else _kinds(jobs))
                if len(jobs) > 1:
                    span.set_attribute("messaging.batch.message_count", len(jobs))
            yield
            if len(jobs) == 1 and jobs[0].id is not None and span.is_recording():
                span.set_attribute("messaging.message.id", str(jobs[0].id))

    def running(self, ctx: Context) -> AbstractContextManager[None]:
        return _Running(self._spans, ctx, new_trace=self._new_traces)

    def stepping(self, ctx: Context, step: str) -> AbstractContextManager[None]:
        return _Stepping(self._spans, ctx, step)


class _Spans:
    """The tracer, and whether it drops whatever is below a span that is not sampled.

    Such a span is not even started: nobody would see it, and a small job costs little more. A sampler is
    asked unless it says of itself that it follows the parent, as that of most programs does.
    """

    def __init__(self, provider: TracerProvider | None) -> None:
        self._provider = provider
        self._propagator: object = None
        self._is_w3c = False
        self._tracer = self._found()

    @property
    def tracer(self) -> Tracer:
        self._look_again()
        return self._tracer

    def are_dropped_below(self, parent: SpanContext) -> bool:
        if not parent.is_valid or parent.trace_flags.sampled:
            return False
        self._look_again()
        return self._drops_remote if parent.is_remote else self._drops_local

    def dropped_parent(self, headers: Mapping[str, str]) -> SpanContext | None:
        """The span that has sent a job, if its runs are dropped: read without the propagators, which take
        three times as long. They are asked if there is anything but a `traceparent`.
        """
        self._look_again()
        if not self._drops_remote or len(headers) != 1:
            return None
        found = _UNSAMPLED(headers.get(_TRACEPARENT, ""))
        if found is None or not self._reads_traceparent():
            return None
        of, span, flags = found.groups()
        return SpanContext(int(of, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))

    def _reads_traceparent(self) -> bool:
        propagator = propagate.get_global_textmap()
        if propagator is not self._propagator:
            self._propagator, self._is_w3c = propagator, _TRACEPARENT in propagator.fields
        return self._is_w3c

    def _look_again(self) -> None:
        if isinstance(self._tracer, trace.ProxyTracer):  # the program had not set its provider yet
            self._tracer = self._found()

    def _found(self) -> Tracer:
        tracer = trace.get_tracer("holdfast", holdfast.__version__, self._provider)
        sampler = getattr(tracer, "sampler", None)  # of the SDK: the interface knows none
        told = sampler.get_description() if sampler is not None else ""
        follows = told.startswith("ParentBased{")
        self._drops_remote = follows and "remoteParentNotSampled:AlwaysOffSampler" in told
        self._drops_local = follows and "localParentNotSampled:AlwaysOffSampler" in told
        return tracer


class _Current:
    """A span that is current while a handler or a step runs: a class and no generator, as it is entered for
    each of them.
    """

    __slots__ = ("_ctx", "_span", "_spans", "_token")

    _token: Token[otel_context.Context]

    def __init__(self, spans: _Spans, ctx: Context) -> None:
        self._spans = spans
        self._ctx = ctx
        self._span: Span | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is not None and self._span is not None and self._span.is_recording():
                _tell(self._span, self._ctx, error)
        finally:
            otel_context.detach(self._token)
            if self._span is not None:
                self._span.end()

    def _enter(self, span: Span) -> None:
        self._token = otel_context.attach(trace.set_span_in_context(span))


class _Running(_Current):
    __slots__ = ("_new_trace",)

    def __init__(self, spans: _Spans, ctx: Context, *, new_trace: bool) -> None:
        super().__init__(spans, ctx)
        self._new_trace = new_trace

    def __enter__(self) -> None:
        headers = self._ctx.headers
        if not self._new_trace:
            unsampled = self._spans.dropped_parent(headers)
            if unsampled is not None:  # current, so that what the handler begins is not sampled either
                self._enter(NonRecordingSpan(unsampled))
                return
        sent_in = propagate.extract(headers, otel_context.Context())
        sender = trace.get_current_span(sent_in).get_span_context()
        claimed = claimed_of(self._ctx)
        row = claimed.row
        self._span = self._spans.tracer.start_span(
            f"process {claimed.queue}",
            context=otel_context.Context() if self._new_trace else sent_in,
            kind=SpanKind.CONSUMER,
            links=(Link(sender),) if sender.is_valid else (),
            attributes={
                "messaging.system": "holdfast",
                "messaging.operation.type": "process",
                "messaging.operation.name": "process",
                "messaging.destination.name": claimed.queue,
                "messaging.message.id": str(claimed.job),
                "holdfast.job.kind": row.kind,
                "holdfast.job.attempt": row.attempt,
                "holdfast.job.run": claimed.run,
                "holdfast.job.tags": row.tags or (),
            },
        )
        self._enter(self._span)


class _Stepping(_Current):
    __slots__ = ("_step",)

    def __init__(self, spans: _Spans, ctx: Context, step: str) -> None:
        super().__init__(spans, ctx)
        self._step = step

    def __enter__(self) -> None:
        outer = trace.get_current_span()
        if self._spans.are_dropped_below(outer.get_span_context()):
            self._enter(outer)
            return
        claimed = claimed_of(self._ctx)
        attributes: Attributes = {
            "holdfast.job.kind": claimed.row.kind,
            "holdfast.step": self._step,
            "messaging.message.id": str(claimed.job),
        }
        self._span = self._spans.tracer.start_span(f"step {self._step}", attributes=attributes)
        self._enter(self._span)


def _send_context(jobs: Sequence[OutgoingJob]) -> None:
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    for job in jobs:
        job.headers |= carrier


def _tell(span: Span, ctx: Context, error: BaseException) -> None:
    """An error is recorded as it is stored, with secret arguments masked. What a handler raises to be
    snoozed, retried later or cancelled is none.
    """
    if isinstance(error, HandlerRequest):
        span.set_attribute("holdfast.request", type(error).__name__.lower())
    elif isinstance(error, Exception):
        failure = shown_failure(ctx, error)
        told = {"exception.type": failure.type or "", "exception.message": failure.message}
        span.add_event("exception", {**told, "exception.stacktrace": failure.traceback or ""})
        span.set_status(Status(StatusCode.ERROR, f"{failure.type}: {failure.message}"))
        span.set_attribute("error.type", failure.type or "")


def _messaging(operation: str, queue: str | None) -> dict[str, str | int | Sequence[str]]:
    found: dict[str, str | int | Sequence[str]] = {
        "messaging.system": "holdfast",
        "messaging.operation.type": operation,
        "messaging.operation.name": operation,
    }
    if queue is not None:
        found["messaging.destination.name"] = queue
    return found


def _kinds(jobs: Sequence[OutgoingJob]) -> Sequence[str]:
    return sorted({job.kind for job in jobs})
