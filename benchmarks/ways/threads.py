"""Plain functions, which a worker runs in threads: beside an executor, and beside coroutines."""

from collections.abc import Iterator
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.session import QUEUE
from benchmarks.ways import bare
from benchmarks.ways.drained import SILENT, drained
from benchmarks.ways.extent import Extent
from benchmarks.ways.turns import in_turns, middle, rate_figure

_SLOTS = 100
_OPTIONS = (*SILENT, "-q", f"{QUEUE}={_SLOTS}")


def threads(bench: Bench, extent: Extent) -> Iterator[Figure]:
    found = in_turns(
        bench,
        extent.rounds,
        {
            "plain functions": partial(drained, bench, "in_thread", extent.thread_jobs, *_OPTIONS),
            "run_in_executor": partial(bare.ran, bench, "threads", 5 * extent.thread_jobs, _SLOTS),
        },
    )
    yield rate_figure(
        "threads",
        f"plain functions in threads, {_SLOTS} slots, against `loop.run_in_executor` with {_SLOTS} threads",
        middle(*found.values()),
        Target("at_least", 0.5, "%"),
    )


def sleep(bench: Bench, extent: Extent) -> Iterator[Figure]:
    found = in_turns(
        bench,
        extent.rounds,
        {
            "1 ms in a thread": partial(drained, bench, "sleep_in_thread", extent.thread_jobs, *_OPTIONS),
            "1 ms in a coroutine": partial(drained, bench, "sleep", extent.thread_jobs, *_OPTIONS),
        },
    )
    yield rate_figure(
        "sleep",
        f"plain function of 1 ms (`time.sleep`), {_SLOTS} slots, against a coroutine of 1 ms",
        middle(*found.values()),
        Target("at_least", 0.8, "%"),
    )
