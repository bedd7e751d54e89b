"""Ways that other benchmarks measure too: the middle of the rounds, against the target of this page."""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks import schedules as scopes
from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.flows.lone import lone_rounds
from benchmarks.ways.extent import Extent


def schedule(bench: Bench, extent: Extent) -> Iterator[Figure]:  # noqa: ARG001  # it has a scale of its own
    for figure in scopes.schedules(bench):
        yield replace(figure, name="schedule", target=Target("at_least", 0.6, "%"))


def step(bench: Bench, extent: Extent) -> Iterator[Figure]:
    rounds = lone_rounds(bench, extent.rounds, extent.lone_steps)
    took = sorted(rounds, key=lambda each: each["step"] / each["insert"])[len(rounds) // 2]
    yield Figure(
        "step",
        "a lone flow's whole step, against one bare INSERT",
        took["step"] / took["insert"],
        Target("at_most", 1.5, "x"),
        f"{took['step']:.3f} against {took['insert']:.3f} ms, median of {extent.lone_steps:,}",
    )
