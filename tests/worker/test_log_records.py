"""What a program's own handlers, filters and record factories get of Holdfast's log: ordinary records."""

import copy
import logging
import logging.handlers
import pickle
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import App
from holdfast.telemetry.events import AttemptEnded, AttemptFact
from holdfast.telemetry.log import log_event
from holdfast.telemetry.log_lines import fact_record, key_values
from holdfast.telemetry.moment import moment

WORKER = logging.getLogger("holdfast.worker")
EVENT = AttemptEnded(AttemptFact(7, 9, "send", "mail", 1, 20), "succeeded", timedelta(milliseconds=12))
FACTS = {
    "job": 7,
    "kind": "send",
    "queue": "mail",
    "attempt": 1,
    "max_attempts": 20,
    "run": 9,
    "took_ms": 12,
}
# Of the moment at which a record is made; and what a formatter adds.
_MOMENTARY = ("created", "msecs", "relativeCreated", "message", "asctime")


class Keeping(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept(caplog: pytest.LogCaptureFixture) -> Iterator[Keeping]:
    caplog.set_level(logging.INFO, "holdfast.worker")
    handler = Keeping()
    WORKER.addHandler(handler)
    yield handler
    WORKER.removeHandler(handler)


def test_every_record_has_what_logging_gives_to_a_record(kept: Keeping) -> None:
    ordinary = fact_record(WORKER, logging.INFO, "attempt succeeded", **FACTS)
    for _ in range(50):
        log_event(EVENT)
    assert len(kept.records) == 50
    for record in kept.records:
        assert type(record) is logging.LogRecord
        assert {name: value for name, value in vars(record).items() if name not in _MOMENTARY} == {
            name: value for name, value in vars(ordinary).items() if name not in _MOMENTARY
        }
        assert 0 <= record.msecs < 1_000
        assert record.msecs == int(record.created % 1 * 1_000)
        assert record.relativeCreated >= ordinary.relativeCreated
        assert vars(record)["holdfast"] == {"event": "attempt succeeded", **FACTS}
    moments = [record.created for record in kept.records]
    assert moments == sorted(moments)
    assert moments[0] >= ordinary.created


def test_records_do_not_share_what_a_handler_may_change(kept: Keeping) -> None:
    for _ in range(3):
        log_event(EVENT)
    first, second, third = kept.records
    vars(second)["holdfast"]["job"] = 0
    second.msg, second.request = "changed", "abc"
    for other in (first, third):
        assert vars(other)["holdfast"]["job"] == 7
        assert other.getMessage().startswith("attempt succeeded: job=7 ")
        assert not hasattr(other, "request")


def test_each_thread_is_named_in_its_records(kept: Keeping) -> None:
    log_event(EVENT)
    thread = threading.Thread(target=log_event, args=(EVENT,), name="another")
    thread.start()
    thread.join()
    log_event(EVENT)
    here = threading.current_thread()
    assert [(record.threadName, record.thread) for record in kept.records] == [
        (here.name, here.ident),
        ("another", thread.ident),
        (here.name, here.ident),
    ]


@contextmanager
def record_factory(factory: Callable[..., logging.LogRecord]) -> Iterator[None]:
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(factory)
    try:
        yield
    finally:
        logging.setLogRecordFactory(before)


class Traced(logging.LogRecord):
    trace = "abc"


def test_a_record_factory_of_the_program_makes_every_record(kept: Keeping) -> None:
    log_event(EVENT)
    with record_factory(Traced):
        log_event(EVENT)
        log_event(EVENT)
    log_event(EVENT)
    assert [type(record) for record in kept.records] == [
        logging.LogRecord,
        Traced,
        Traced,
        logging.LogRecord,
    ]
    assert len({record.getMessage() for record in kept.records}) == 1


def test_what_a_record_factory_adds_stays_with_its_records(kept: Keeping) -> None:
    """As OpenTelemetry adds the span that a line was logged in."""
    spans = iter("abc")

    def with_span(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = logging.LogRecord(*args, **kwargs)
        vars(record)["span"] = next(spans)
        return record

    with record_factory(with_span):
        for _ in range(3):
            log_event(EVENT)
    log_event(EVENT)
    assert [vars(record).get("span") for record in kept.records] == ["a", "b", "c", None]


def test_filters_of_the_logger_and_of_a_handler_see_every_record(kept: Keeping) -> None:
    seen: list[object] = []

    def of_logger(record: logging.LogRecord) -> bool:
        seen.append(vars(record)["holdfast"])
        return len(seen) != 2

    def of_handler(record: logging.LogRecord) -> bool:
        vars(record)["tenant"] = "shop"
        return True

    kept.addFilter(of_handler)
    WORKER.addFilter(of_logger)
    try:
        for _ in range(3):
            log_event(EVENT)
    finally:
        WORKER.removeFilter(of_logger)
    assert len(seen) == 3
    assert [vars(record)["tenant"] for record in kept.records] == ["shop", "shop"]


def test_a_record_can_be_queued_copied_and_pickled(kept: Keeping) -> None:
    waiting: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    queueing = logging.handlers.QueueHandler(waiting)
    WORKER.addHandler(queueing)
    try:
        log_event(EVENT)
        log_event(EVENT)
    finally:
        WORKER.removeHandler(queueing)
    for record in (waiting.get_nowait(), waiting.get_nowait()):
        again = pickle.loads(pickle.dumps(copy.copy(record)))
        assert again.getMessage() == kept.records[0].getMessage()
        assert vars(again)["holdfast"]["took_ms"] == 12


async def test_handlers_on_the_root_logger_get_the_lines_of_an_embedded_worker(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with App(dsn) as app:

        @app.job
        async def greet() -> None: ...

        async with app.worker():
            jobs = [await greet.enqueue() for _ in range(3)]
            for job in jobs:
                await job.result(timeout="30s")
    told = [
        vars(record)["holdfast"]
        for record in caplog.records
        if record.getMessage().startswith("attempt succeeded: ")
    ]
    assert [facts["job"] for facts in told] == [job.id for job in jobs]
    assert {facts["kind"].rpartition(".")[2] for facts in told} == {"greet"}


names = st.text(min_size=1, max_size=20)


@given(names, names | st.none(), names, st.integers(0, 10**9))
def test_a_success_is_written_as_any_other_line(kind: str, step: str | None, queue: str, took: int) -> None:
    fact = AttemptFact(7, 9, kind, queue, 1, 20, step)
    handler = Keeping()
    level = WORKER.level
    WORKER.addHandler(handler)
    WORKER.setLevel(logging.INFO)
    try:
        log_event(AttemptEnded(fact, "succeeded", timedelta(milliseconds=took)))
    finally:
        WORKER.removeHandler(handler)
        WORKER.setLevel(level)
    [record] = handler.records
    facts = dict(vars(record)["holdfast"])
    assert facts.pop("event") == "attempt succeeded"
    assert record.getMessage() == f"attempt succeeded: {key_values(facts)}"


@given(st.floats(0, 4_000_000_000))
def test_a_moment_is_written_as_datetime_writes_it(created: float) -> None:
    assert moment(created) == datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")
