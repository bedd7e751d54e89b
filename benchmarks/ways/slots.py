"""The default number of slots, beside the best of those that a user might try. Nothing is logged."""

from collections.abc import Iterator
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.session import QUEUE
from benchmarks.ways.drained import NOTHING, SILENT, drained
from benchmarks.ways.extent import Extent
from benchmarks.ways.turns import in_turns, middle, rate_figure

_NUMBERS = (50, 100, 250, 500, 1_000)


def slots(bench: Bench, extent: Extent) -> Iterator[Figure]:
    default = "default slots"
    chosen = {f"{number:,} slots": ("-q", f"{QUEUE}={number}") for number in _NUMBERS}
    found = in_turns(
        bench,
        extent.rounds,
        {
            name: partial(drained, bench, NOTHING, extent.jobs, *SILENT, *options)
            for name, options in {default: (), **chosen}.items()
        },
    )
    # By pairs within a round, so that the best is not the one that met the quietest machine.
    best = min(chosen, key=lambda name: middle(found[default], found[name]).ratio)
    yield rate_figure(
        "slots",
        f"default slots, silent, against the best of {', '.join(f'{each:,}' for each in _NUMBERS)} ({best})",
        middle(found[default], found[best]),
        Target("at_least", 0.8, "%"),
    )
