"""A job that writes one row in `ctx.transaction()`, beside the same transaction with no job around it."""

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.session import QUEUE
from benchmarks.ways import bare
from benchmarks.ways.bodies import SESSION_SLOTS
from benchmarks.ways.drained import SILENT, drained
from benchmarks.ways.extent import Extent
from benchmarks.ways.turns import Pair, Ran, in_turns, middle, rate_figure

_SLOTS = (8, 32)
_TARGET = Target("at_least", 0.75, "%")


def transaction(bench: Bench, extent: Extent) -> Iterator[Figure]:
    for slots in _SLOTS:
        yield rate_figure(
            "transaction",
            f"a row in `ctx.transaction()`, {slots} slots, against the bare transaction",
            _beside(bench, extent.rounds, "pay", "transactions", slots=slots, jobs=extent.transactions),
            _TARGET,
        )
    yield rate_figure(
        "transaction",
        "a row in `ctx.transaction()`, 1 slot, against a bare loop that commits a claim first",
        _beside(bench, extent.rounds, "pay", "claimed_transactions", slots=1, jobs=extent.lone_transactions),
        _TARGET,
    )


def session(bench: Bench, extent: Extent) -> Iterator[Figure]:
    yield rate_figure(
        "session",
        f"a row through a SQLAlchemy AsyncSession, {SESSION_SLOTS} slots, against that session alone",
        _beside(bench, extent.rounds, "book", "sessions", slots=SESSION_SLOTS, jobs=extent.transactions),
        _TARGET,
    )


def _beside(bench: Bench, rounds: int, kind: str, act: str, *, slots: int, jobs: int) -> Pair:
    """The bare side runs as many at once as the worker has opened connections for, in the same round; where
    the connections are those of an engine, which both have, as many as there are slots.
    """
    connections = slots

    def ours() -> Ran:
        nonlocal connections
        ran = drained(bench, kind, jobs, *SILENT, "-q", f"{QUEUE}={slots}")
        connections = ran.connections or slots
        return ran

    def theirs() -> Ran:
        return bare.ran(bench, act, jobs, connections)

    found = in_turns(bench, rounds, {f"{kind}, {slots} slots": ours, f"bare {act}": theirs})
    return middle(*found.values())
