"""Threads of plain functions: few stay, and those that nobody needs end."""

import threading
import time

from holdfast.worker.threads import JobThreads


def until(claim: object, *, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not claim():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.005)


def test_idle_threads_end_and_take_what_they_hold_with_them() -> None:
    held = threading.local()
    gone = threading.Event()

    class Kept:
        def __del__(self) -> None:
            gone.set()

    threads = JobThreads(4, idle=0.05)
    threads.submit(lambda: setattr(held, "connection", Kept())).result(10)
    assert gone.wait(20)
    until(lambda: threads.count == 0)
    assert threads.submit(lambda: 7).result(10) == 7, "another one is started"
    threads.close()


def test_the_thread_that_was_used_last_is_used_next() -> None:
    threads = JobThreads(8)
    together = threading.Barrier(3)

    def meet() -> int:
        together.wait(20)
        return threading.get_ident()

    for future in [threads.submit(meet) for _ in range(3)]:
        future.result(20)
    until(lambda: len(threads._idle) == 3)
    seen = set()
    for _ in range(20):
        seen.add(threads.submit(threading.get_ident).result(10))
        until(lambda: len(threads._idle) == 3)
    assert len(seen) == 1
    threads.close()
    until(lambda: threads.count == 0)


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
    until(running.running)
    waiting = threads.submit(lambda: None)
    threads.close()
    assert waiting.cancelled()
    go.set()
    assert running.result(20)
    until(lambda: threads.count == 0)
