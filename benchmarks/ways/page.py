"""Writes what was found as a page of the reference, with a plot of the ratios."""

from pathlib import Path

from benchmarks.figure import Figure, markdown
from benchmarks.peers.plot import plot
from benchmarks.peers.systems import KEPT
from benchmarks.ways.drained import SILENT, WORKER
from benchmarks.ways.extent import Extent
from benchmarks.ways.logged import AWA_WORKERS, COMMANDS
from benchmarks.ways.steady import CONCURRENCY, WAITING
from holdfast.worker.queue_choice import SLOTS

_NAME = "benchmarks-ways"

_PAGE = """# Every way to run a job, measured

What a job costs in each way that users run it, beside the bare thing that does the same work and beside
the commands that other systems document. Written by `make bench-ways`: {machine}. Read the ratios: what
is behind them changes from hour to hour. Throughput with every system tuned, the drain included, is on
the [page about peers](benchmarks-peers.md).

![every figure as a multiple of its target]({name}.svg)

{table}

Behind a figure are the jobs per second of both sides and, in brackets, the microseconds of CPU time of
one job: those of the program with all its processes, plus those of the whole server. A row whose target
is none is there to be read.

## What was run

Each program is started by its own command line, in an environment that has uvloop, with its output
redirected to a file. The handlers are no-ops, or do what the row says. Nothing else is set, neither for
Holdfast nor for the others.

| system | command | what that means |
|---|---|---|
{systems}

The modules are `receipts.py`, `jobs.py`, `pgqueuer_app.py`, `awa_program.py` and `procrastinate_app.py` of
`benchmarks/ways/`.

## How it is measured

- One embedded server for all, with its default durability; a fresh database for every run. The two sides
  of a row take turns for {rounds} rounds, {long_rounds} where they take long; the figure is that of the
  round with the middle ratio. Beside commands of other systems it is the fastest round of each side, so that
  no system is shown slower than it is because the machine was busy in its turn.
- Jobs wait before a program starts. A figure counts from the moment when a tenth of them is handled, so
  that no start-up is in it, until the database says that none is left unfinished.
- The **bare transaction** is psycopg in one process on uvloop: begin, the insert, one statement that
  deletes a small row and inserts another as a completion does, commit. It has as many connections as the
  worker opened for its handlers in the same round. With 1 slot a statement that claims one row is
  committed first. The bare **AsyncSession** does the same over an engine like the job's,
  whose pool has a connection for each slot.
- **`loop.run_in_executor`** and **`ProcessPoolExecutor`** call an empty function and touch no database.
  The pool of processes has 100 calls in flight.
- **What the cores can give** is their time, less what other programs took of it.
- **Several processes** start while their queue is paused, and it is resumed when all of them are there:
  otherwise the first would have emptied it.
- A **schedule** with 10,000 scopes, all due at once, is read, decided and written by one pass of the
  planner; the bulk enqueue writes as many jobs. A flow's **whole step** is everything between the call of
  `flow.step` and its return.
- In **steady state** a producer keeps {waiting:,} jobs waiting for a worker with {concurrency} slots, for
  {soak:g} s, and finished jobs are pruned after {kept:g} s. Its CPU time is that of producer, worker and
  server. Its **parts** are the drain, the bulk enqueue and the pruning of as many jobs, each alone.
  pgqueuer has the settings of the page about peers, and keeps its log of finished jobs.
"""

_SYSTEMS = (
    (
        "Holdfast",
        WORKER,
        (
            f"Its defaults: {SLOTS} slots, more while jobs end at once, and a line at INFO for each job. The "
            "rows about logs and commands are run like this. All others add "
            f"`{' '.join(SILENT)}`, and `-q`, `--children` or `--processes` where they name a number. Jobs "
            "that do something are in an app of their own, `benchmarks.ways.jobs:app`."
        ),
    ),
    (
        "pgqueuer",
        COMMANDS["pgqueuer"],
        (
            "The one asyncpg connection of its quick start and its defaults: batches of 10, no limit of "
            "concurrency, log at INFO. Its command uses uvloop."
        ),
    ),
    (
        "awa-pg",
        COMMANDS["awa"],
        (
            "Its quick start as a program, since it has no command for workers in Python, with "
            f"{AWA_WORKERS} workers, the default of its runtime. It logs nothing, its storage is what "
            "`migrate()` makes, and it runs on the event loop of asyncio."
        ),
    ),
    (
        "procrastinate",
        COMMANDS["procrastinate"],
        (
            "The connector of its quick start and its defaults: one job at a time, log at INFO. Its command "
            "uses the event loop of asyncio."
        ),
    ),
)


def write_page(directory: Path, figures: list[Figure], machine: str, extent: Extent) -> None:
    page = _PAGE.format(
        machine=machine,
        name=_NAME,
        table=markdown(figures),
        systems="\n".join(f"| {name} | `{' '.join(command)}` | {says} |" for name, command, says in _SYSTEMS),
        rounds=extent.rounds,
        long_rounds=extent.long_rounds,
        waiting=WAITING,
        concurrency=CONCURRENCY,
        soak=extent.soak_seconds,
        kept=KEPT.total_seconds(),
    )
    (directory / f"{_NAME}.md").write_text(page)
    (directory / f"{_NAME}.svg").write_text(plot(figures))
