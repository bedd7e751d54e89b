"""Batch handlers of a hundred jobs, beside the same jobs one by one: `python -m benchmarks.batches`."""

import argparse
from collections.abc import Iterator
from functools import partial

from benchmarks.bench import Bench, Scale
from benchmarks.command import parse, run
from benchmarks.figure import Figure, Target
from benchmarks.session import QUEUE
from benchmarks.ways.drained import SILENT, UNFINISHED, drain, fill
from benchmarks.ways.program import Program
from benchmarks.ways.turns import Ran, cost_figure, in_turns, middle, rate_figure

ROUNDS = 5
JOBS = {"pay": 10_000, "nothing": 40_000}
_SLOTS = 8
_TARGETS = {"pay": 3.0, "nothing": 1.0}
_WHAT = {"pay": "a row for each job in `ctx.transaction()`", "nothing": "no-ops"}


def batches(bench: Bench, *, rounds: int = ROUNDS, share: float = 1.0) -> Iterator[Figure]:
    """`share`: of the jobs. In jobs per second, and in CPU time a job of worker and server."""
    for kind, jobs in JOBS.items():
        number = max(int(jobs * share), 2_000)
        sides = {
            f"{kind}, {side}": partial(_drained, bench, kind, number, side) for side in ("batches", "ones")
        }
        found = list(in_turns(bench, rounds, sides).values())
        target = Target("at_least", _TARGETS[kind], "x")
        what = f"{_WHAT[kind]}, batches of 100 against one by one"
        yield rate_figure("batches", f"{what}: jobs/s", middle(*found), target)
        pair = middle(*found, by=lambda pair: pair.cost)
        yield cost_figure("batches", f"{what}: CPU", pair, Target("at_most", 1 / _TARGETS[kind], "x"))


def _drained(bench: Bench, kind: str, jobs: int, side: str) -> Ran:
    """No-ops with the slots that a worker has by default, as more than these are used for jobs that end at
    once; transactions with as many as there are connections for.
    """
    slots = ["-q", f"{QUEUE}={_SLOTS}"] if kind == "pay" else ["-q", QUEUE]
    with bench.database() as dsn:
        fill(dsn, kind, jobs)
        command = ["holdfast", "worker", "-A", f"benchmarks.batch_jobs:{side}", *SILENT, *slots]
        with Program.start(command, dsn) as program:
            return drain(program, dsn, jobs, UNFINISHED)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.batches", description="Measure batch handlers."
    )
    parser.add_argument("--quick", action="store_true", help="only try whether everything runs")
    options = parse(parser, ["batches"])
    measure = partial(batches, rounds=1, share=0.02) if options.quick else batches
    run(measure, Scale()).show(is_json=options.json)


if __name__ == "__main__":
    main()
