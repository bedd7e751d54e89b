"""What the SDK of OpenTelemetry takes for a span like that of a run, with nothing of ours around it."""

import time
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    set_span_in_context,
)


class Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002  # as all exporters
        return SpanExportResult.SUCCESS


def to_nowhere() -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return provider


def sdk_alone(spans: int) -> float:
    """Microseconds of CPU for each, its part of the batch that is exported among them."""
    provider = to_nowhere()
    tracer = provider.get_tracer("bench")
    sender = SpanContext(trace_id=7, span_id=8, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    sent_in = set_span_in_context(NonRecordingSpan(sender))
    began = time.process_time()
    for number in range(spans):
        tracer.start_span(
            "process default",
            context=sent_in,
            kind=SpanKind.CONSUMER,
            links=(Link(sender),),
            attributes={
                "messaging.system": "holdfast",
                "messaging.operation.type": "process",
                "messaging.operation.name": "process",
                "messaging.destination.name": "default",
                "messaging.message.id": str(number),
                "holdfast.job.kind": "send_receipt",
                "holdfast.job.attempt": 1,
                "holdfast.job.run": number,
                "holdfast.job.tags": (),
            },
        ).end()
    taken = time.process_time() - began
    provider.shutdown()
    return taken / spans * 1e6
