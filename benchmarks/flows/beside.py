"""A thousand flows of ten steps, waiting in a queue, run by one process of each system."""

from collections import defaultdict
from collections.abc import Iterator

import psycopg

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.flows.extent import Extent
from benchmarks.flows.order import STEPS
from benchmarks.peers.crew import Crew, act, wait_until_finished
from benchmarks.peers.effort import Effort

PEERS = ("dbos", "absurd")
# Counted by the database: what is not kept was not worth measuring.
_KEPT = {
    "holdfast-flows": "select count(*) from holdfast.checkpoint where is_done",
    "dbos": "select count(*) from dbos.operation_outputs",
    "absurd": "select count(*) from absurd.c_default",
}
_TARGET = 5.0


def beside(bench: Bench, extent: Extent) -> Iterator[Figure]:
    """Round by round, so that a change of the machine's mood meets everybody."""
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(extent.rounds):
        for system in ("holdfast-flows", *PEERS):
            flows = extent.slow_flows if system == "dbos" else extent.flows
            rates[system].append(_steps_a_second(bench, system, flows, extent.concurrency))
    ours = max(rates["holdfast-flows"])
    fastest = max(PEERS, key=lambda peer: max(rates[peer]))
    for system in PEERS:
        theirs = max(rates[system])
        # Only the faster of them is the measure; the other is shown beside it.
        yield Figure(
            "beside",
            f"{extent.flows:,} flows of {STEPS} steps, against {system}",
            ours / theirs,
            Target("at_least", _TARGET if system == fastest else 1.0, "x"),
            f"{ours:,.0f} against {theirs:,.0f} steps/s",
        )


def _steps_a_second(bench: Bench, system: str, flows: int, concurrency: int) -> float:
    """From the first step that runs until the database says that no flow is left unfinished."""
    with bench.database() as dsn:
        unfinished = act("prepare", system, dsn)
        act("bulk", system, dsn, flows)
        with Crew.start(system, dsn, concurrency=concurrency) as crew:
            workers = [child.pid for child in crew.children]
            at_first = Effort.so_far(dsn, workers)
            crew.begin()
            began = crew.wait_for(1, within=60)
            # The one more is what the producer warmed itself up with.
            steps = (flows + 1) * STEPS
            before = crew.tally.total
            crew.wait_for(steps, within=300)
            ended = wait_until_finished(dsn, unfinished)
            effort = Effort.so_far(dsn, workers).since(at_first, steps)
            ran = crew.tally.total
            crew.begun()
            crew.end()
        with psycopg.connect(dsn) as connection:
            [(kept,)] = connection.execute(_KEPT[system]).fetchall()
    if not ran == kept == steps:
        raise AssertionError(f"{system} ran {ran:,} and kept {kept:,} steps, not {steps:,}")
    rate = (steps - before) / (ended - began)
    bench.say(f"{system}: {rate:,.0f} steps/s, {effort}")
    return rate
