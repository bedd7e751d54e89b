"""Bulk enqueue, and how fast one worker process, or several, empty a full queue."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.peers.crew import Crew, act, wait_until_finished
from benchmarks.peers.effort import Effort
from benchmarks.peers.extent import Extent
from benchmarks.peers.systems import PEERS
from benchmarks.session import BATCH, Session, seconds

_TARGETS = {
    "pgqueuer": Target("at_least", 3.5, "x"),
    "awa": Target("at_least", 6.0, "x"),
    "procrastinate": Target.informative("x"),
}
_BULK_TARGETS = {"pgqueuer": 2.0, "awa": 3.0}


class Drained(NamedTuple):
    """Jobs per second, and what they took."""

    rate: float
    effort: Effort


def drain(bench: Bench, extent: Extent) -> Iterator[Figure]:
    """Round by round, so that a change of the machine's mood meets everybody."""
    found: dict[str, list[Drained]] = defaultdict(list)
    cycles: list[float] = []
    for _ in range(extent.rounds):
        for system in ("holdfast", *PEERS):
            found[system].append(drained_once(bench, system, extent.jobs, extent.concurrency))
        cycles.append(_storage_cycle(bench, extent.jobs))
    best = {system: max(each, key=lambda one: one.rate) for system, each in found.items()}
    ours = best["holdfast"].rate
    for system, target in _TARGETS.items():
        theirs = best[system].rate
        yield Figure(
            "drain",
            f"drain of {extent.jobs:,} jobs, against {system}",
            ours / theirs,
            target,
            f"{ours:,.0f} against {theirs:,.0f} jobs/s",
        )
    yield Figure(
        "drain",
        "drain, against claim + settle alone",
        ours / max(cycles),
        Target("at_least", 0.5, "%"),
        f"{ours:,.0f} against {max(cycles):,.0f} jobs/s",
    )


def bulk(bench: Bench, extent: Extent) -> Iterator[Figure]:
    """By itself: each takes a second, so that all of a round meet the machine in the same mood."""
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(extent.rounds):
        for system in ("holdfast", *_BULK_TARGETS):
            with bench.database() as dsn:
                act("prepare", system, dsn)
                rates[system].append(extent.jobs / act("bulk", system, dsn, extent.jobs))
            bench.say(f"{system}: enqueued {rates[system][-1]:,.0f} jobs/s")
    for system, target in _BULK_TARGETS.items():
        ours, theirs = max(rates["holdfast"]), max(rates[system])
        yield Figure(
            "bulk",
            f"bulk enqueue of {extent.jobs:,} jobs, against {system}",
            ours / theirs,
            Target("at_least", target, "x"),
            f"{ours:,.0f} against {theirs:,.0f} jobs/s",
        )


def processes(bench: Bench, extent: Extent) -> Iterator[Figure]:
    rates: dict[int, list[float]] = defaultdict(list)
    for _ in range(extent.rounds):
        for number in (1, 2, 4):
            ran = drained_once(bench, "holdfast", extent.jobs, extent.concurrency, number)
            rates[number].append(ran.rate)
    one = max(rates[1])
    for number in (2, 4):
        together = max(rates[number])
        yield Figure(
            "processes",
            f"{number} worker processes, against one",
            together / one,
            Target("at_least", 1.0, "x"),
            f"{together:,.0f} against {one:,.0f} jobs/s",
        )


def drained_once(bench: Bench, system: str, jobs: int, concurrency: int, processes: int = 1) -> Drained:
    """Enqueued, and drained: from the first job that is handled until all are finished."""
    with bench.database() as dsn:
        unfinished = act("prepare", system, dsn)
        act("bulk", system, dsn, jobs)
        with Crew.start(system, dsn, concurrency=concurrency, processes=processes) as crew:
            workers = [child.pid for child in crew.children]
            crew.begin()
            began = crew.wait_for(1, within=60)
            before = crew.tally.total
            at_first = Effort.so_far(dsn, workers)
            # The one more is what the producer warmed itself up with.
            crew.wait_for(jobs + 1, within=1_200)
            ended = wait_until_finished(dsn, unfinished)
            effort = Effort.so_far(dsn, workers).since(at_first, jobs + 1 - before)
            crew.begun()
            crew.end()
    rate = (jobs + 1 - before) / (ended - began)
    of = f" in {processes} processes" if processes > 1 else ""
    bench.say(f"{system}: drained {rate:,.0f} jobs/s{of}, {effort}")
    return Drained(rate, effort)


def _storage_cycle(bench: Bench, jobs: int) -> float:
    """Our own statements without a worker around them, over one connection, one after the other."""
    with bench.database() as dsn, Session.on(dsn) as session:
        worker = session.worker()
        session.enqueue(jobs)
        rate = jobs / seconds(lambda: _cycle(session, worker))
    bench.say(f"claim + settle alone, {BATCH} at a time: {rate:,.0f} jobs/s")
    return rate


def _cycle(session: Session, worker: int) -> None:
    while (rows := session.claim(worker))[0].job is not None:
        session.settle(worker, rows)
