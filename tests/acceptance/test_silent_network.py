"""A network that drops everything silently: for longer than the lease, and for less."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.workers import WorkerProcess, Workers
from support.proxy import Proxy
from support.waiting import until


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with Proxy.before(dsn) as proxy:
        yield proxy


@pytest.mark.requirement("S1.10", "S1.28", "S4.21")
async def test_attempts_are_aborted_before_another_worker_may_take_them_over(
    dsn: str, shop: Any, books: Books, workers: Workers, proxy: Proxy
) -> None:
    cut = await workers.start(dsn=proxy.dsn(dsn), lease=3)
    held = [await shop.wait_then_pay.enqueue("go") for _ in range(5)]
    await until(lambda: books.executions() == 5, "they run")
    other = await workers.start(lease=3)
    proxy.black_hole()
    await until(lambda: books.executions(pid=other.pid) == 5, "the other one has taken them over")
    aborted, taken_over = books.lines("aborted", pid=cut.pid), books.lines(pid=other.pid)
    assert len(aborted) == 5
    assert max(line.at for line in aborted) < min(line.at for line in taken_over)
    assert cut.lines("WARNING", "worker lost its lease", "aborted=5")
    books.open_gate("go")
    await books.all_finished(5)
    assert all(books.outcomes(handle.id) == ["retried", "succeeded"] for handle in held)
    proxy.pass_through()
    proxy.reset()
    await until(lambda: books.workers(cut.pid), "the worker registers again")
    await other.stop()
    await shop.pay.enqueue(1)
    await books.all_finished(6)
    await cut.stop()
    books.assert_balanced(6)
    books.assert_effects_once(6)


@pytest.fixture
async def busy(dsn: str, shop: Any, books: Books, workers: Workers, proxy: Proxy) -> WorkerProcess:
    """A worker behind the proxy, with a lease longer than any test, in the middle of five jobs."""
    worker = await workers.start(dsn=proxy.dsn(dsn), lease=30, poll=1)
    await shop.app.enqueue_many([shop.wait_then_return.call("go") for _ in range(5)])
    await until(lambda: books.executions() == 5, "they run")
    return worker


async def is_unharmed(worker: WorkerProcess, books: Books) -> None:
    await books.all_finished(5)
    await worker.stop()
    assert books.executions() == 5
    assert not worker.lines("lease lost")
    books.assert_balanced(5)


@pytest.mark.requirement("S1.12", "S4.3")
async def test_a_slow_network_loses_nothing(busy: WorkerProcess, books: Books, proxy: Proxy) -> None:
    proxy.latency(1)
    await proxy.reply_passed(5)
    books.open_gate("go")
    proxy.pass_through()
    await is_unharmed(busy, books)


@pytest.mark.requirement("S1.12", "S4.3")
async def test_a_silence_shorter_than_the_lease_loses_nothing(
    busy: WorkerProcess, books: Books, proxy: Proxy
) -> None:
    proxy.black_hole()
    await proxy.request_swallowed(2)
    books.open_gate("go")
    proxy.pass_through()
    proxy.reset()
    await is_unharmed(busy, books)


@pytest.mark.machine
@pytest.mark.requirement("S2.45")
async def test_a_worker_can_be_stopped_while_the_network_is_silent(
    busy: WorkerProcess, books: Books, proxy: Proxy
) -> None:
    proxy.black_hole()
    await proxy.request_swallowed(1)
    busy.terminate()
    busy.interrupt()
    began = monotonic()
    await until(lambda: busy.has_ended, "it ends", within=60)
    took = monotonic() - began
    print(f"it took {took:.1f} s")  # noqa: T201  # for a reader who measures
    assert await busy.exit_code() == 0, "\n".join(busy.log)


@pytest.mark.requirement("S2.45")
async def test_a_third_signal_waits_for_nothing(busy: WorkerProcess, books: Books, proxy: Proxy) -> None:
    proxy.black_hole()
    busy.terminate()
    busy.interrupt()
    await until(lambda: not _is_caught(busy.pid, signal.SIGTERM), "the second signal was heard")
    busy.terminate()
    assert await busy.exit_code(within=5) == -signal.SIGTERM


def _is_caught(pid: int, number: signal.Signals) -> bool:
    """Whether a process handles a signal itself, according to /proc."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [mask] = [line.split()[1] for line in lines if line.startswith("SigCgt:")]
    return bool(int(mask, 16) & (1 << (number - 1)))


@pytest.mark.machine  # it takes its time
@pytest.mark.requirement("S4.21")
async def test_the_lease_keepers_silence_cuts_the_connections_that_wait_beside_it(
    dsn: str, shop: Any, books: Books, workers: Workers, proxy: Proxy
) -> None:
    """A reply may take a minute, a renewal five seconds: what the one has found out the others go by."""
    worker = await workers.start(dsn=proxy.dsn(dsn), lease=60, beat=0.4, poll=0.5)
    await shop.pay.enqueue(0)
    await books.all_finished(1)
    proxy.black_hole()
    await proxy.request_swallowed(2)  # a poll and a renewal wait for their replies
    await until(lambda: worker.lines("connection to", "lost, reconnecting"), "it is noticed", within=20)
    # What was open stays open and silent, as behind a firewall that has forgotten it.
    proxy.pass_through()
    await shop.pay.enqueue(1)
    began = monotonic()
    await until(lambda: books.executions() == 2, "it works again", within=40)
    took = monotonic() - began
    print(f"it took {took:.1f} s")  # noqa: T201  # for a reader who measures
    await books.all_finished(2)
    await worker.stop()
