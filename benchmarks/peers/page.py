"""Writes what was found as a page of the reference, with a plot of the ratios."""

from pathlib import Path

from benchmarks.figure import Figure, markdown
from benchmarks.peers.extent import Extent
from benchmarks.peers.plot import plot

_NAME = "benchmarks-peers"

_PAGE = """# Holdfast beside other job systems

Written by `make bench-peers`: {machine}.

![every figure as a multiple of its target]({name}.svg)

{table}

## How it is measured

- One embedded server for all, with its default durability; a fresh database for every run; systems in
  turns, best of {rounds} rounds each. Every worker and every producer is a process of its own, on uvloop,
  logging at WARNING.
- A job is a no-op coroutine with about 100 bytes of JSON as arguments, up to {concurrency} at once in one
  process.
- **Drain** counts from the first job that is handled until the database itself says that none is left
  unfinished.
- **CPU** is that of the worker's process and, behind the plus sign, that of the whole server, from the first
  job on: the figure to look at where the machine was busy with something else.
- **Claim + settle alone** are Holdfast's own statements, 200 jobs at a time, over one connection with
  nothing around them.
- **Single enqueue** and the bare INSERT use psycopg in one process with as many connections as producers.
- **Pickup** counts from the call that enqueues, in one process, to the first line of the handler in another,
  the commit included. The bare loop inserts and notifies in one commit, listens, and deletes what it finds.
- **Idle** counts every statement in the server's log.

The configurations are the modules of `benchmarks/peers/`, one for each system, in the way its own
documentation recommends for throughput: pgqueuer over an asyncpg pool with batches of half the concurrency,
the largest that it allows; awa-pg with its queue storage and COPY; procrastinate with its pool and
`batch_defer`. How each of them does when its own command starts it, with nothing tuned, is on the page about
[every way to run a job](benchmarks-ways.md).
"""


def write_page(directory: Path, figures: list[Figure], machine: str, extent: Extent) -> None:
    page = _PAGE.format(
        machine=machine,
        name=_NAME,
        table=markdown(figures),
        rounds=extent.rounds,
        concurrency=extent.concurrency,
    )
    (directory / f"{_NAME}.md").write_text(page)
    (directory / f"{_NAME}.svg").write_text(plot(figures))
