"""Spans of OpenTelemetry for enqueues, runs and steps: `App(middleware=[Tracing()])`.

The context of the span that enqueues travels with the job, in its headers, so that the job's runs belong to
the same trace, on whichever worker. Names and attributes follow the semantic conventions for messaging.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

import holdfast
from holdfast.worker.attempt_outcome import shown_failure
from holdfast.worker.context import Context
from holdfast.worker.handler_requests import HandlerRequest
from holdfast.worker.middleware import Middleware, OutgoingJob

Attributes = Mapping[str, str | int | Sequence[str]]


class Tracing(Middleware):
    """`provider`: whose spans, by default those of the global provider, which Logfire and Sentry set up by
    themselves. `new_traces`: a job's runs begin traces of their own, linked to that of the enqueue, for jobs
    that run long after it.
    """

    def __init__(self, provider: TracerProvider | None = None, *, new_traces: bool = False) -> None:
        self._tracer = trace.get_tracer("holdfast", holdfast.__version__, provider)
        self._new_traces = new_traces

    @contextmanager
    def enqueuing(self, jobs: Sequence[OutgoingJob]) -> Iterator[None]:
        """One span, and one context for all of them."""
        queues = {job.queue for job in jobs}
        queue = queues.pop() if len(queues) == 1 else None
        with self._tracer.start_as_current_span(
            f"send {queue}" if queue else "send",
            kind=SpanKind.PRODUCER,
            attributes=_messaging("send", queue),
        ) as span:
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            for job in jobs:
                job.headers |= carrier
            span.set_attribute("holdfast.job.kind", jobs[0].kind if len(jobs) == 1 else _kinds(jobs))
            if len(jobs) > 1:
                span.set_attribute("messaging.batch.message_count", len(jobs))
            yield
            if len(jobs) == 1 and jobs[0].id is not None:
                span.set_attribute("messaging.message.id", str(jobs[0].id))

    @contextmanager
    def running(self, ctx: Context) -> Iterator[None]:
        sent_in = propagate.extract(ctx.headers, otel_context.Context())
        sender = trace.get_current_span(sent_in).get_span_context()
        job = ctx.job
        with (
            self._tracer.start_as_current_span(
                f"process {job.queue}",
                context=otel_context.Context() if self._new_traces else sent_in,
                kind=SpanKind.CONSUMER,
                links=[Link(sender)] if sender.is_valid else (),
                attributes={
                    **_messaging("process", job.queue),
                    "messaging.message.id": str(job.id),
                    "holdfast.job.kind": job.kind,
                    "holdfast.job.attempt": ctx.attempt,
                    "holdfast.job.run": ctx.fencing_token,
                    "holdfast.job.tags": job.tags,
                },
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            _told(span, ctx),
        ):
            yield

    @contextmanager
    def stepping(self, ctx: Context, step: str) -> Iterator[None]:
        attributes: Attributes = {
            "holdfast.job.kind": ctx.job.kind,
            "holdfast.step": step,
            "messaging.message.id": str(ctx.job.id),
        }
        with (
            self._tracer.start_as_current_span(
                f"step {step}",
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            _told(span, ctx),
        ):
            yield


@contextmanager
def _told(span: Span, ctx: Context) -> Iterator[None]:
    """An error is recorded as it is stored, with secret arguments masked. What a handler raises to be
    snoozed, retried later or cancelled is none.
    """
    try:
        yield
    except HandlerRequest as request:
        span.set_attribute("holdfast.request", type(request).__name__.lower())
        raise
    except Exception as error:
        failure = shown_failure(ctx, error)
        told = {"exception.type": failure.type or "", "exception.message": failure.message}
        span.add_event("exception", {**told, "exception.stacktrace": failure.traceback or ""})
        span.set_status(Status(StatusCode.ERROR, f"{failure.type}: {failure.message}"))
        span.set_attribute("error.type", failure.type or "")
        raise


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
