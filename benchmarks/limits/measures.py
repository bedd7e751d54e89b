"""Each limit beside the same jobs without one, in turns. Their names are those of the rows."""

from collections.abc import Iterator
from functools import partial

from benchmarks import batches as batch_handlers
from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.limits import gates
from benchmarks.limits.drained import drained, drained_by_fleet, drained_under_snapshot, enqueued
from benchmarks.limits.extent import Extent
from benchmarks.limits.places import PROCESSES, SLOTS
from benchmarks.ways.turns import Measure, Pair, in_turns, middle, rate_figure

_DRAINED = (
    (gates.UNKEYED, f"`total={gates.PERMITS}`", 0.75, 15),
    (gates.LOCK, f"`per_key=1`, {gates.LOCK.keys:,} keys", 0.60, 25),
    (gates.TURNS, f"`turns=True`, {gates.TURNS.keys:,} keys", 0.45, 35),
    (
        gates.TOTAL_AND_KEY,
        f"`total={gates.PERMITS}, per_key=1`, {gates.TOTAL_AND_KEY.keys:,} keys",
        0.35,
        60,
    ),
)


def drain(bench: Bench, extent: Extent) -> Iterator[Figure]:
    """All of them beside the same unlimited drain of the same round."""
    ways: dict[str, Measure] = {"unlimited": partial(drained, bench, gates.NONE, extent.jobs)}
    ways |= {gate.app: partial(drained, bench, gate, extent.jobs) for gate, *_ in _DRAINED}
    found = in_turns(bench, extent.rounds, ways)
    for gate, what, share, added in _DRAINED:
        sides = found[gate.app], found["unlimited"]
        yield rate_figure(
            "drain", f"{what}: jobs/s, against unlimited", middle(*sides), Target("at_least", share, "%")
        )
        pair = middle(*sides, by=_added)
        yield Figure(
            "drain",
            f"{what}: added CPU of a job, worker + server",
            _added(pair),
            Target("at_most", added, "µs"),
            f"{pair.ours} against {pair.theirs} jobs/s",
        )


def enqueue(bench: Bench, extent: Extent) -> Iterator[Figure]:
    for gate, what in ((gates.UNKEYED, "no key"), (gates.LOCK, f"{gates.LOCK.keys:,} keys")):
        yield _beside(
            bench,
            extent.rounds,
            ("enqueue", f"bulk enqueue of limited jobs, {what}: jobs/s, against unlimited", 0.75),
            partial(enqueued, bench, gate, extent.enqueued),
            partial(enqueued, bench, gates.NONE, extent.enqueued),
        )


def hot(bench: Bench, extent: Extent) -> Iterator[Figure]:
    yield _beside(
        bench,
        extent.long_rounds,
        ("hot", "`per_key=1`, all jobs of one key: jobs/s, against unlimited with one slot", 0.95),
        partial(drained, bench, gates.HOT, extent.lone_jobs),
        partial(drained, bench, gates.NONE, extent.lone_jobs, slots=1),
    )


def snapshot(bench: Bench, extent: Extent) -> Iterator[Figure]:
    for gate, what in ((gates.UNKEYED, f"`total={gates.PERMITS}`"), (gates.LOCK, "`per_key=1`")):
        yield _beside(
            bench,
            extent.long_rounds,
            ("snapshot", f"{what} under a pinned snapshot: jobs/s, against without", 0.75),
            partial(drained_under_snapshot, bench, gate, extent.jobs),
            partial(drained, bench, gate, extent.jobs),
        )


def fleet(bench: Bench, extent: Extent) -> Iterator[Figure]:
    what = f"{PROCESSES} worker processes of {SLOTS} slots, `total={PROCESSES * SLOTS}`"
    yield _beside(
        bench,
        extent.long_rounds,
        ("fleet", f"{what}: jobs/s, against unlimited", 0.80),
        partial(drained_by_fleet, bench, gates.FLEET, extent.fleet_jobs),
        partial(drained_by_fleet, bench, gates.NONE, extent.fleet_jobs),
    )


def many_keys(bench: Bench, extent: Extent) -> Iterator[Figure]:
    what = f"`per_key=1`, {gates.MANY_KEYS.keys:,} keys: jobs/s, against {gates.FEW_KEYS.keys:,}"
    yield _beside(
        bench,
        extent.long_rounds,
        ("many_keys", what, 0.85),
        partial(drained, bench, gates.MANY_KEYS, extent.many_jobs),
        partial(drained, bench, gates.FEW_KEYS, extent.many_jobs),
    )


def batches(bench: Bench, extent: Extent) -> Iterator[Figure]:
    yield from batch_handlers.batches(bench, rounds=extent.rounds, share=extent.batch_share)


def _beside(bench: Bench, rounds: int, row: tuple[str, str, float], ours: Measure, theirs: Measure) -> Figure:
    name, measure, share = row
    found = in_turns(bench, rounds, {name: ours, f"{name}, the other side": theirs})
    return rate_figure(name, measure, middle(*found.values()), Target("at_least", share, "%"))


def _added(pair: Pair) -> float:
    return pair.ours.effort.both - pair.theirs.effort.both
