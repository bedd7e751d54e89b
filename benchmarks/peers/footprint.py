"""What a worker takes while it is full, and while it has nothing to do."""

import re
import time
from collections.abc import Iterator

import psycopg
from psycopg import sql

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.peers.crew import Crew, act
from benchmarks.peers.extent import Extent

_STATEMENT = re.compile(rb"LOG:  (statement|execute)")


def memory(bench: Bench, extent: Extent) -> Iterator[Figure]:
    with bench.database() as dsn:
        act("prepare", "holdfast", dsn)
        act("bulk", "holdfast", dsn, extent.in_flight - 1)
        with Crew.start("holdfast", dsn, concurrency=extent.in_flight, mode="hold") as crew:
            crew.begin()
            crew.begun()
            crew.wait_for(extent.in_flight, within=60)
            resident = crew.children[0].resident_bytes
            crew.end()
    bench.say(f"memory: {resident / 1e6:.1f} MB with {extent.in_flight:,} jobs in flight")
    yield Figure(
        "memory",
        f"memory of a worker with {extent.in_flight:,} jobs in flight",
        resident / 1e6,
        Target("at_most", 90, "MB"),
        "resident set of the process",
    )


def idle(bench: Bench, extent: Extent) -> Iterator[Figure]:
    """Counted in the server's log, which leaves out nothing."""
    with bench.database() as dsn:
        act("prepare", "holdfast-idle", dsn)
        _log_everything(dsn)
        with Crew.start("holdfast-idle", dsn, concurrency=10) as crew:
            crew.begin()
            crew.begun()
            # What a start brings with it is over by then.
            time.sleep(min(10, extent.idle_seconds))
            before = bench.log.stat().st_size
            time.sleep(extent.idle_seconds)
            with bench.log.open("rb") as log:
                log.seek(before)
                number = len(_STATEMENT.findall(log.read()))
            crew.end()
    bench.say(f"idle: {number} statements in {extent.idle_seconds:g} s")
    yield Figure(
        "idle",
        "idle worker with 20 queues, statements",
        number / extent.idle_seconds,
        Target("at_most", 1, "/s"),
        f"{number} in {extent.idle_seconds:g} s",
    )


def _log_everything(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("alter database {} set log_statement = 'all'").format(name))
