"""A full queue, emptied by a program: how fast, and at what cost in CPU time."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import psycopg

from benchmarks.bench import Bench
from benchmarks.peers.crew import act, wait_until_finished
from benchmarks.peers.effort import Effort
from benchmarks.session import QUEUE, SCHEMA, Session
from benchmarks.ways.bodies import PAYMENT
from benchmarks.ways.program import Program
from benchmarks.ways.turns import Ran
from holdfast.domain.job import NewJob, Policy
from holdfast.storage.jobs import enqueue_many

_COMMAND = ("holdfast", "worker", "-A")
WORKER = (*_COMMAND, "benchmarks.ways.receipts:app")
JOBS_WORKER = (*_COMMAND, "benchmarks.ways.jobs:app")
SILENT = ("--log-level", "warning")

UNFINISHED = "select (select count(*) from holdfast.ready) + (select count(*) from holdfast.lease)"
NOTHING = "send_receipt"
"""The job that is a no-op."""
RECEIPT = '{"sent": 0, "user_id": 4711, "template": "receipt", "note": "thank you for your order"}'

# Connections, caches, child processes and the first claims are no part of the figure.
_WARM_UP = 0.1
_HANDLERS = "select count(*) from pg_stat_activity where application_name = 'holdfast/handlers'"


def drained(bench: Bench, kind: str, jobs: int, *options: str) -> Ran:
    """By `holdfast worker` with these options."""
    with bench.database() as dsn:
        fill(dsn, kind, jobs)
        worker = WORKER if kind == NOTHING else JOBS_WORKER
        with Program.start([*worker, *options], dsn) as program:
            ran = drain(program, dsn, jobs, UNFINISHED)
            return ran._replace(connections=_connections(dsn))


def drained_by(bench: Bench, system: str, command: Sequence[str], jobs: int) -> Ran:
    """By another system, started as it documents it."""
    with bench.database() as dsn:
        unfinished = act("prepare", system, dsn)
        act("bulk", system, dsn, jobs - 1)  # which enqueues one more, to warm itself up
        with Program.start(command, dsn) as program:
            return drain(program, dsn, jobs, unfinished)


def drain(
    program: Program,
    dsn: str,
    jobs: int,
    unfinished: str,
    meanwhile: Callable[[], object] = lambda: None,
) -> Ran:
    """Counted once a tenth of them is handled, until the database says that none is left unfinished."""
    began = program.wait_for(max(1, int(jobs * _WARM_UP)), within=120)
    before = program.tally.total
    at_first = Effort.so_far(dsn, [program.pid])
    meanwhile()
    program.wait_for(jobs, within=300)
    ended = wait_until_finished(dsn, unfinished)
    effort = Effort.so_far(dsn, [program.pid]).since(at_first, jobs - before)
    return Ran((jobs - before) / (ended - began), effort)


def fill(dsn: str, kind: str, jobs: int, origin: Callable[[int], str | None] | None = None) -> None:
    """As `app.enqueue_many` writes them. `origin`: where each of them comes from."""
    policy = Policy(kind, queue=QUEUE)
    with Session.on(dsn) as session:
        session.ask(PAYMENT)
        new = [
            NewJob(replace(policy, origin=origin(number)) if origin else policy, args_of(kind, number))
            for number in range(jobs)
        ]
        session.hold(enqueue_many(SCHEMA, new, notify=False))
        session.ask("analyze")


def args_of(kind: str, number: int) -> str:
    return RECEIPT if kind == NOTHING else f'{{"number": {number}}}'


def _connections(dsn: str) -> int:
    """Those that the worker has opened for its handlers."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        [(number,)] = connection.execute(_HANDLERS).fetchall()
    return int(number)
