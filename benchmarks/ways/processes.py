"""`holdfast worker --processes N`: what a job costs in CPU time when several processes share a queue."""

import time
from collections.abc import Iterator
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.peers.crew import wait_until_finished
from benchmarks.peers.effort import Effort
from benchmarks.session import QUEUE, SCHEMA, Session
from benchmarks.ways.drained import NOTHING, SILENT, UNFINISHED, WORKER, fill
from benchmarks.ways.extent import Extent
from benchmarks.ways.program import Program
from benchmarks.ways.turns import Pair, Ran, cost_figure, in_turns, middle
from holdfast.storage import operators

_NUMBERS = (1, 2, 4, 8)
_WORKERS = "select count(*) from {schema}.worker where lost_at is null"


def processes(bench: Bench, extent: Extent) -> Iterator[Figure]:
    found = in_turns(
        bench,
        extent.long_rounds,
        {_name(number): partial(_drained, bench, extent.process_jobs, number) for number in _NUMBERS},
    )
    for number in _NUMBERS[1:]:
        yield cost_figure(
            "processes",
            f"{number} worker processes: CPU of a job, worker + server, against one process",
            middle(found[_name(number)], found[_name(1)], by=_cost),
            Target("at_most", 1.15, "x"),
        )


def _name(number: int) -> str:
    return f"{number} processes" if number > 1 else "one process"


def _cost(pair: Pair) -> float:
    return pair.cost


def _drained(bench: Bench, jobs: int, number: int) -> Ran:
    """The queue is paused until all of them are there: the first would else have emptied it by then."""
    with bench.database() as dsn:
        fill(dsn, NOTHING, jobs)
        with Session.on(dsn) as session:
            session.run(operators.pause(SCHEMA, queue=QUEUE, note=None, until=None, length=None))
            with Program.start([*WORKER, *SILENT, "--processes", str(number)], dsn) as program:
                wait_for_workers(session, program, number)
                at_first, began = Effort.so_far(dsn, [program.pid]), time.monotonic()
                session.run(operators.resume(SCHEMA, queue=QUEUE))
                program.wait_for(jobs, within=120)
                ended = wait_until_finished(dsn, UNFINISHED)
                effort = Effort.so_far(dsn, [program.pid]).since(at_first, jobs)
    return Ran(jobs / (ended - began), effort)


def wait_for_workers(session: Session, program: Program, number: int) -> None:
    ends = time.monotonic() + 60
    while session.ask(_WORKERS)[0][0] < number:
        program.check()
        if time.monotonic() > ends:
            raise TimeoutError(f"{number} worker processes did not register")
        time.sleep(0.05)
    # What a start brings with it, such as the first look of a leader, is over by then.
    time.sleep(2)
