"""Spans of enqueues, runs and steps, read back from an exporter in memory."""

import asyncio
from collections.abc import Callable, Iterator

import psycopg
import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from holdfast import App, Context, Flow, Retry, Secret, Snooze
from holdfast.errors import JobEnded
from holdfast.integrations.opentelemetry import Tracing

Spans = Callable[[], list[ReadableSpan]]


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> Iterator[TracerProvider]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider
    provider.shutdown()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Spans:
    """In the order in which they began."""
    return lambda: sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


def one(found: list[ReadableSpan], name: str) -> ReadableSpan:
    [span] = [span for span in found if span.name == name]
    return span


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


async def test_enqueue_run_child_and_step_are_one_trace(
    dsn: str, provider: TracerProvider, spans: Spans
) -> None:
    async with App(dsn, middleware=[Tracing(provider)]) as app:

        @app.job(queue="mail", tags=["vip"])
        async def child() -> int:
            return 1

        @app.flow
        async def order(flow: Flow) -> int:
            paid = await flow.step("charge", lambda: 1)
            return paid + await flow.call(child)

        tracer = provider.get_tracer("shop")
        async with app.worker():
            with tracer.start_as_current_span("request"):
                handle = await order.enqueue()
            assert await handle.result("30s") == 2
    found = spans()
    sent, step, called = one(found, "send default"), one(found, "step charge"), one(found, "send mail")
    runs = [span for span in found if span.name == "process default"]
    childs = one(found, "process mail")
    assert {span.context.trace_id for span in found} == {one(found, "request").context.trace_id}
    assert parent_of(sent) == one(found, "request").context.span_id
    assert {parent_of(run) for run in runs} == {sent.context.span_id}
    for run in runs:  # until it waits for its child, and from there on, unless the child was quick
        assert [link.context.span_id for link in run.links] == [sent.context.span_id]
    assert parent_of(step) == parent_of(called) == runs[0].context.span_id
    assert parent_of(childs) == called.context.span_id
    assert (sent.kind, runs[0].kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert dict(sent.attributes or {}) == {
        "messaging.system": "holdfast",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": "default",
        "messaging.message.id": str(handle.id),
        "holdfast.job.kind": "order",
    }
    attributes = dict(childs.attributes or {})
    assert attributes.pop("holdfast.job.run")
    assert attributes.pop("messaging.message.id")
    assert attributes == {
        "messaging.system": "holdfast",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "mail",
        "holdfast.job.kind": "child",
        "holdfast.job.attempt": 1,
        "holdfast.job.tags": ("vip",),
    }


async def test_a_failed_attempt_is_an_error_and_a_snooze_is_none(
    dsn: str, provider: TracerProvider, spans: Spans
) -> None:
    async with App(dsn, middleware=[Tracing(provider)]) as app:

        @app.job(retry=Retry(max_attempts=1))
        async def pay() -> None:
            raise ValueError("no money")

        @app.job
        def nap(ctx: Context) -> None:
            if "napped" not in ctx.state:
                ctx.state["napped"] = True
                raise Snooze("1ms")

        async with app.worker():
            with pytest.raises(JobEnded):
                await (await pay.enqueue()).result("30s")
            await (await nap.enqueue()).result("30s")
    runs = [span for span in spans() if span.name == "process default"]
    assert [run.status.status_code for run in runs] == [StatusCode.ERROR, StatusCode.UNSET, StatusCode.UNSET]
    assert runs[0].status.description == "ValueError: no money"
    assert (runs[0].attributes or {})["error.type"] == "ValueError"
    assert [event.name for event in runs[0].events] == ["exception"]
    assert (runs[1].attributes or {})["holdfast.request"] == "snooze"


async def test_a_secret_argument_is_in_no_span(dsn: str, provider: TracerProvider, spans: Spans) -> None:
    async with App(dsn, middleware=[Tracing(provider)]) as app:

        @app.job(retry=Retry(max_attempts=1))
        async def pay(card: Secret[str]) -> None:
            raise ValueError(f"card {card} is refused")

        async with app.worker():
            with pytest.raises(JobEnded):
                await (await pay.enqueue("4111-1111")).result("30s")
    run = one(spans(), "process default")
    assert "refused" in str(run.events[0].attributes)
    assert "4111-1111" not in "".join(span.to_json() for span in spans())


async def test_the_handlers_own_spans_are_inside_also_in_a_thread(
    dsn: str, provider: TracerProvider, spans: Spans
) -> None:
    tracer = provider.get_tracer("shop")
    async with App(dsn, middleware=[Tracing(provider)]) as app:

        @app.job
        def work() -> None:
            with tracer.start_as_current_span("inside"):
                pass

        async with app.worker():
            await (await asyncio.to_thread(work.enqueue_sync)).result("30s")
        await asyncio.to_thread(app.close_sync)
    found = spans()
    assert parent_of(one(found, "inside")) == one(found, "process default").context.span_id


async def test_many_jobs_are_one_span(dsn: str, provider: TracerProvider, spans: Spans) -> None:
    async with App(dsn, middleware=[Tracing(provider)]) as app:

        @app.job
        async def a() -> None: ...

        @app.job(queue="mail")
        async def b() -> None: ...

        await app.enqueue_many([a.call(), b.call(), a.call()])
    [sent] = spans()
    attributes = sent.attributes or {}
    assert sent.name == "send"
    assert attributes["messaging.batch.message_count"] == 3
    assert attributes["holdfast.job.kind"] == ("a", "b")


async def test_with_new_traces_a_run_is_only_linked(dsn: str, provider: TracerProvider, spans: Spans) -> None:
    async with App(dsn, middleware=[Tracing(provider, new_traces=True)]) as app:

        @app.job
        async def work() -> None: ...

        async with app.worker():
            await (await work.enqueue()).result("30s")
    sent, run = spans()
    assert run.parent is None
    assert run.context.trace_id != sent.context.trace_id
    assert [link.context.span_id for link in run.links] == [sent.context.span_id]


async def test_a_trace_that_begins_in_sql_goes_on_in_the_run(
    dsn: str, provider: TracerProvider, spans: Spans
) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with App(dsn, middleware=[Tracing(provider)]) as app:

        @app.job
        async def work() -> None: ...

        with psycopg.connect(dsn) as connection:
            query = "select holdfast.enqueue('work', headers => jsonb_build_object('traceparent', %s::text))"
            [(job,)] = connection.execute(query, [parent])
        async with app.worker():
            await app.handle(job).result("30s")
    [run] = spans()
    assert trace.format_trace_id(run.context.trace_id) == parent.split("-")[1]
    assert trace.format_span_id(parent_of(run) or 0) == parent.split("-")[2]


class CountedIds(RandomIdGenerator):
    """Every span that is started draws one, also if nothing of it is kept."""

    def __init__(self) -> None:
        self.spans = 0

    def generate_span_id(self) -> int:
        self.spans += 1
        return super().generate_span_id()


UNSAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
NOT_SAMPLED_HERE = trace.set_span_in_context(
    NonRecordingSpan(SpanContext(trace_id=7, span_id=8, is_remote=False, trace_flags=TraceFlags(0)))
)


async def test_no_span_is_started_below_one_that_is_not_sampled(dsn: str) -> None:
    ids = CountedIds()
    provider = TracerProvider(id_generator=ids)
    parents: list[str] = []
    async with App(dsn, middleware=[Tracing(provider)]) as app:

        @app.job
        async def child(ctx: Context) -> None:
            parents.append(ctx.headers["traceparent"])

        @app.flow
        async def order(flow: Flow) -> None:
            await flow.step("charge", lambda: 1)
            await flow.call(child)

        token = otel_context.attach(NOT_SAMPLED_HERE)
        handle = await order.enqueue()
        otel_context.detach(token)
        async with app.worker():
            await handle.result("30s")
    assert parents == ["00-00000000000000000000000000000007-0000000000000008-00"]
    assert ids.spans == 0


async def test_the_handlers_own_spans_are_not_sampled_either(
    dsn: str, provider: TracerProvider, spans: Spans
) -> None:
    tracer = provider.get_tracer("shop")
    async with App(dsn, middleware=[Tracing(provider)]) as app:

        @app.job
        async def work() -> None:
            with tracer.start_as_current_span("inside"):
                pass

        with psycopg.connect(dsn) as connection:
            query = "select holdfast.enqueue('work', headers => jsonb_build_object('traceparent', %s::text))"
            [(job,)] = connection.execute(query, [UNSAMPLED])
        async with app.worker():
            await app.handle(job).result("30s")
    assert spans() == []


async def test_a_sampler_that_does_not_follow_the_parent_is_asked(
    dsn: str, exporter: InMemorySpanExporter, spans: Spans
) -> None:
    provider = TracerProvider(sampler=ALWAYS_ON)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with App(dsn, middleware=[Tracing(provider)]) as app:

        @app.job
        async def work() -> None: ...

        token = otel_context.attach(NOT_SAMPLED_HERE)
        handle = await work.enqueue()
        otel_context.detach(token)
        async with app.worker():
            await handle.result("30s")
    assert [span.name for span in spans()] == ["send default", "process default"]


async def test_the_global_provider_may_be_set_after_the_app_is_made(
    dsn: str, provider: TracerProvider, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with App(dsn, middleware=[Tracing()]) as app:

        @app.job
        async def work() -> None: ...

        monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
        await work.enqueue()
    assert [span.name for span in spans()] == ["send default"]
