"""Writes what was found as a page of the reference."""

from pathlib import Path

from benchmarks.figure import Figure, markdown
from benchmarks.flows.extent import Extent
from benchmarks.flows.order import CLIENTS, STEPS

NAME = "benchmarks-flows.md"

_PAGE = """# Flows beside other systems

Written by `make bench-flows`: {machine}.

{table}

## How it is measured

- One embedded server for all, with its default durability; a fresh database for every run; systems in
  turns, best of {rounds} rounds each. Every worker is one process on uvloop, with up to {concurrency}
  flows at once, logging at WARNING.
- A **flow** is {steps} steps, one after the other; a step is a coroutine that gives some 25 bytes of
  JSON, kept before the next one begins. They are enqueued before the worker starts. What counts is the
  time from the first step that runs until the database itself says that no flow is left unfinished; that
  each step ran once and was kept is checked.
- **dbos** is given {slow_flows} flows instead of {flows:,}: with 1,000 its rate was no higher. Its
  workflows and steps are coroutines on a queue, with its default pool of 20 connections; it looks at the
  queue ten times a second, not once. Plain functions in its threads were somewhat faster in a trial (247
  steps/s), far from the other two.
- **absurd-sdk** is given {clients} clients in the process that share the flows, since each has one
  connection, on which one statement waits for the other; with 1, 8 and 40 of them it was slower.
- A **lone flow's checkpoint** is the statement that keeps it, with its fence, over a pool like the
  worker's. Its **whole step** is everything between calling `flow.step` and its return: the step's
  function, its checkpoint, and what decides that it is the next one. The bare INSERT of a row with the
  same key and value goes over a connection of its own. All three take turns within one flow.
- **Sleeping flows** are rows as flows leave them: every second one sleeps, the others wait for an event
  of their own, each with a finished step. Both databases are there at once and are drained in turns,
  {jobs:,} jobs or {flows:,} flows each time.

The configurations are the modules `dbos.py`, `absurd.py` and `holdfast.py` of `benchmarks/flows/`.
"""


def write_page(directory: Path, figures: list[Figure], machine: str, extent: Extent) -> None:
    page = _PAGE.format(
        machine=machine,
        table=markdown(figures),
        rounds=extent.rounds,
        concurrency=extent.concurrency,
        steps=STEPS,
        flows=extent.flows,
        slow_flows=extent.slow_flows,
        jobs=extent.jobs,
        clients=CLIENTS,
    )
    (directory / NAME).write_text(page)
