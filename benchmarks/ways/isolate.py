"""`isolate="process"`: beside a pool of processes, and beside what the cores can give."""

import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.peers.effort import Effort, busy_seconds
from benchmarks.ways import bare
from benchmarks.ways.bodies import COMPUTE_SECONDS
from benchmarks.ways.drained import JOBS_WORKER, SILENT, drained, fill
from benchmarks.ways.extent import Extent
from benchmarks.ways.program import Program
from benchmarks.ways.turns import in_turns, middle, rate_figure
from holdfast.worker.processes.cores import cores

_CHILDREN = 4


def isolate(bench: Bench, extent: Extent) -> Iterator[Figure]:
    for children in sorted({cores(), _CHILDREN}):
        options = (*SILENT, "--children", str(children))
        found = in_turns(
            bench,
            extent.long_rounds,
            {
                f"{children} children": partial(drained, bench, "in_child", extent.child_jobs, *options),
                f"pool of {children}": partial(bare.ran, bench, "processes", 2 * extent.child_jobs, children),
            },
        )
        yield rate_figure(
            "isolate",
            f'`isolate="process"` with {children} children, against `ProcessPoolExecutor({children})`',
            middle(*found.values()),
            Target("at_least", 0.75, "%"),
        )


class _Share(NamedTuple):
    """Seconds of CPU time: what the handlers used of it, and what the cores had to give."""

    used: float
    given: float


class _Moment(NamedTuple):
    at: float
    handled: int
    ours: float
    everybody: float

    @classmethod
    def now(cls, program: Program, dsn: str) -> "_Moment":
        effort = Effort.so_far(dsn, [program.pid])
        return cls(time.monotonic(), program.tally.total, effort.both, busy_seconds())

    def share_since(self, before: "_Moment") -> _Share:
        """What other programs took of the cores meanwhile was not there to be used."""
        others = (self.everybody - before.everybody) - (self.ours - before.ours)
        return _Share(
            (self.handled - before.handled) * COMPUTE_SECONDS,
            (self.at - before.at) * cores() - max(others, 0),
        )


def compute(bench: Bench, extent: Extent) -> Iterator[Figure]:
    shares = []
    for _ in range(extent.long_rounds):
        shares.append(_computed(bench, extent.computed_jobs))
        bench.say(f"compute: {shares[-1].used:.2f} of {shares[-1].given:.2f} s")
    share = sorted(shares, key=lambda each: each.used / each.given)[len(shares) // 2]
    yield Figure(
        "compute",
        f'`isolate="process"`, {COMPUTE_SECONDS * 1e3:.0f} ms of CPU each, against what the cores can give',
        share.used / share.given,
        Target("at_least", 0.97, "%"),
        f"{share.used:.2f} of {share.given:.2f} s of CPU",
    )


def _computed(bench: Bench, jobs: int) -> _Share:
    """Between the first tenth and the last: at the very end a child has nothing left to do."""
    with bench.database() as dsn:
        fill(dsn, "compute_in_child", jobs)
        with Program.start([*JOBS_WORKER, *SILENT], dsn) as program:
            program.wait_for(jobs // 10, within=120)
            before = _Moment.now(program, dsn)
            program.wait_for(jobs - jobs // 10, within=120)
            return _Moment.now(program, dsn).share_since(before)
