"""Jobs behind a limit, enqueued and drained as users do it, and what that takes."""

import os
import time

from benchmarks.bench import Bench
from benchmarks.limits.gates import Gate
from benchmarks.limits.places import PROCESSES, SLOTS
from benchmarks.peers.crew import wait_until_finished
from benchmarks.peers.effort import Effort
from benchmarks.session import QUEUE, SCHEMA, Session, seconds
from benchmarks.snapshot import pinned
from benchmarks.ways.drained import SILENT, UNFINISHED, drain
from benchmarks.ways.processes import wait_for_workers
from benchmarks.ways.program import Program
from benchmarks.ways.turns import Ran
from holdfast.storage import operators
from holdfast.storage.jobs import enqueue_many


def drained(bench: Bench, gate: Gate, jobs: int, *, slots: int | None = None) -> Ran:
    """By one worker process; `slots`: in place of its default."""
    with bench.database() as dsn:
        _fill(dsn, gate, jobs)
        with Program.start(_worker(gate, slots), dsn) as program:
            return drain(program, dsn, jobs, UNFINISHED)


def drained_under_snapshot(bench: Bench, gate: Gate, jobs: int) -> Ran:
    """While somebody else's transaction keeps vacuum from all that dies."""
    with bench.database() as dsn:
        _fill(dsn, gate, jobs)
        with pinned(dsn), Program.start(_worker(gate), dsn) as program:
            return drain(program, dsn, jobs, UNFINISHED)


def drained_by_fleet(bench: Bench, gate: Gate, jobs: int) -> Ran:
    """The queue is paused until all processes are there: the first would else have emptied it by then."""
    with bench.database() as dsn:
        _fill(dsn, gate, jobs)
        command = [*_worker(gate, SLOTS), "--processes", str(PROCESSES)]
        with Session.on(dsn) as session:
            session.run(operators.pause(SCHEMA, queue=QUEUE, note=None, until=None, length=None))
            with Program.start(command, dsn) as program:
                wait_for_workers(session, program, PROCESSES)
                at_first, began = Effort.so_far(dsn, [program.pid]), time.monotonic()
                session.run(operators.resume(SCHEMA, queue=QUEUE))
                program.wait_for(jobs, within=120)
                ended = wait_until_finished(dsn, UNFINISHED)
                effort = Effort.so_far(dsn, [program.pid]).since(at_first, jobs)
    return Ran(jobs / (ended - began), effort)


def enqueued(bench: Bench, gate: Gate, jobs: int) -> Ran:
    """In bulk, as one transaction, once a first thousand has warmed the connection up."""
    with bench.database() as dsn, Session.on(dsn) as session:
        session.hold(enqueue_many(SCHEMA, gate.jobs(1_000, QUEUE), notify=False))
        new = gate.jobs(jobs, QUEUE)
        at_first = Effort.so_far(dsn, [os.getpid()])
        took = seconds(lambda: session.hold(enqueue_many(SCHEMA, new, notify=False)))
        return Ran(jobs / took, Effort.so_far(dsn, [os.getpid()]).since(at_first, jobs))


def _worker(gate: Gate, slots: int | None = None) -> list[str]:
    queue = QUEUE if slots is None else f"{QUEUE}={slots}"
    return ["holdfast", "worker", "-A", f"benchmarks.limits.apps:{gate.app}", *SILENT, "-q", queue]


def _fill(dsn: str, gate: Gate, jobs: int) -> None:
    with Session.on(dsn) as session:
        session.hold(enqueue_many(SCHEMA, gate.jobs(jobs, QUEUE), notify=False))
        session.ask("analyze")
