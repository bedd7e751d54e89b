"""Threads for plain functions: a few stay, and idle ones end."""

import logging
import sys
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from holdfast.worker.job_threads import JobThreads
from support.waiting import block_until


def test_idle_threads_end_and_take_what_they_hold_with_them() -> None:
    held = threading.local()
    gone = threading.Event()

    class Kept:
        def __del__(self) -> None:
            gone.set()

    threads = JobThreads(4, idle=0.05)
    threads.submit(lambda: setattr(held, "connection", Kept())).result(10)
    assert gone.wait(20)
    block_until(lambda: threads.count == 0)
    assert threads.submit(lambda: 7).result(10) == 7, "another one is started"
    threads.close()


def test_what_a_call_returned_does_not_live_on_while_its_thread_waits() -> None:
    class Big:
        pass

    threads = JobThreads(1)
    for _ in range(2):
        result = threads.submit(Big).result(10)
        block_until(lambda: len(threads._idle) == 1)
        kept = weakref.ref(result)
        del result
        assert kept() is None
    threads.close()


def test_the_thread_that_was_used_last_is_used_next() -> None:
    threads = JobThreads(8)
    together = threading.Barrier(3)

    def meet() -> int:
        together.wait(20)
        return threading.get_ident()

    for future in [threads.submit(meet) for _ in range(3)]:
        future.result(20)
    block_until(lambda: len(threads._idle) == 3)
    seen = set()
    for _ in range(20):
        seen.add(threads.submit(threading.get_ident).result(10))
        block_until(lambda: len(threads._idle) == 3)
    assert len(seen) == 1
    threads.close()
    block_until(lambda: threads.count == 0)


def test_what_waits_for_a_thread_begins_in_order_and_is_cancelled_at_the_end() -> None:
    threads = JobThreads(1)
    go, order = threading.Event(), []
    first = threads.submit(lambda: go.wait(20))
    others = [threads.submit(lambda n=n: order.append(n)) for n in range(3)]  # type: ignore[misc]
    go.set()
    for future in (first, *others):
        future.result(20)
    assert order == [0, 1, 2]
    go.clear()
    running = threads.submit(lambda: go.wait(20))
    block_until(running.running)
    waiting = threads.submit(lambda: None)
    threads.close()
    assert waiting.cancelled()
    go.set()
    assert running.result(20)
    block_until(lambda: threads.count == 0)


def pretend_django(monkeypatch: pytest.MonkeyPatch, close_all: Callable[[], None]) -> None:
    database = SimpleNamespace(
        connections=SimpleNamespace(close_all=close_all), close_old_connections=lambda: None
    )
    monkeypatch.setitem(sys.modules, "django.db", database)
    settings = SimpleNamespace(configured=True)
    monkeypatch.setitem(sys.modules, "django.conf", SimpleNamespace(settings=settings))


def test_a_thread_counts_until_its_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that is submitted meanwhile waits for it, and does not open another connection."""
    closing, go = threading.Event(), threading.Event()

    def close_all() -> None:
        closing.set()
        assert go.wait(20)

    pretend_django(monkeypatch, close_all)
    threads = JobThreads(1, idle=0.01)
    first = threads.submit(threading.get_ident).result(10)
    assert closing.wait(20)
    assert threads.count == 1
    second = threads.submit(threading.get_ident)
    assert not second.running()
    go.set()
    assert second.result(20) == first
    block_until(lambda: threads.count == 0)


def test_connections_that_cannot_be_closed_keep_no_thread_from_ending(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def close_all() -> None:
        raise OSError("it is gone")

    pretend_django(monkeypatch, close_all)
    caplog.set_level(logging.DEBUG, "holdfast.worker")
    threads = JobThreads(2, idle=0.01)
    assert threads.submit(lambda: 7).result(10) == 7
    block_until(lambda: threads.count == 0)
    lasting = JobThreads(2, idle=600)
    assert lasting.submit(lambda: 7).result(10) == 7
    block_until(lambda: len(lasting._idle) == 1)
    [last] = lasting.close()
    assert last.result(20) is None
    block_until(lambda: lasting.count == 0)
    told = [record for record in caplog.records if "could not be closed" in record.message]
    assert told
    assert {record.levelno for record in told} == {logging.DEBUG}
