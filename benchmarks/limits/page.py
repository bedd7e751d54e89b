"""Writes what was found as a page of the reference."""

from pathlib import Path

from benchmarks.figure import Figure, markdown
from benchmarks.limits.extent import Extent
from benchmarks.limits.gates import LIMIT, PERMITS
from benchmarks.limits.places import PROCESSES, SLOTS

NAME = "benchmarks-limits.md"

_PAGE = """# What limits cost, measured

What a job behind a [limit](limits.md) costs, beside the same job without one. Written by
`make bench-limits`: {machine}. Read the ratios: what is behind them changes from hour to hour.

{table}

Behind a figure are the jobs per second of both sides and, in brackets, the microseconds of CPU time of
one job: those of the worker with all its processes, plus those of the whole server. A limit of the first
rows is cheap enough when it reaches either of its two figures: the less a job without a limit costs, the
larger is the share of the same few microseconds.

## How it is measured

- One embedded server for all, with its default durability; a fresh database for every run. Both sides take
  turns for {rounds} rounds, {long_rounds} where they take long; the figure is that of the round with the
  middle ratio. On a machine that is busy with other things as well, the CPU time of a job is the better
  guide.
- The job is a coroutine that does nothing, with one parameter, behind the one limit `{limit}` of its app or
  none. {jobs:,} jobs wait before `holdfast worker --log-level warning` starts, spread over the keys in
  turns. A figure counts from the moment when a tenth of them is handled until the database says that none is
  left unfinished.
- `total={permits}` is more than a worker runs at once, so that the figure is the cost of counting and not
  of waiting.
- **One key**: {lone_jobs:,} jobs that run one after the other, in a worker with its default slots, against a
  worker with one slot and no limit.
- **Under a pinned snapshot** another transaction in REPEATABLE READ is open throughout, so that nothing
  that dies can be removed.
- **{processes} worker processes** of {slots} slots start while their queue is paused, and it is resumed when
  all of them are there. The limit allows as many jobs as they have slots.
- **Batches** have no limit: they are the same jobs in [batch handlers](../how-to/batches.md) of a
  hundred, against one by one.
- `many_keys` runs only if it is named, as it takes minutes: {many_jobs:,} jobs of 300,000 keys, against as
  many of 10,000.
"""


def write_page(directory: Path, figures: list[Figure], machine: str, extent: Extent) -> None:
    page = _PAGE.format(
        machine=machine,
        table=markdown(figures),
        rounds=extent.rounds,
        long_rounds=extent.long_rounds,
        limit=LIMIT,
        permits=PERMITS,
        jobs=extent.jobs,
        lone_jobs=extent.lone_jobs,
        many_jobs=extent.many_jobs,
        processes=PROCESSES,
        slots=SLOTS,
    )
    (directory / NAME).write_text(page)
