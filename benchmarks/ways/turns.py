"""Two ways measured in turns, and the figure that comes of it: the middle of the rounds."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.peers.effort import Effort


class Ran(NamedTuple):
    """Jobs per second, what one of them took, and how many connections they had for themselves."""

    rate: float
    effort: Effort
    connections: int = 0

    def __str__(self) -> str:
        had = f", {self.connections} connections" if self.connections else ""
        return f"{self.rate:,.0f} ({self.effort.show()} µs{had})"


Measure = Callable[[], Ran]


class Pair(NamedTuple):
    ours: Ran
    theirs: Ran

    @property
    def ratio(self) -> float:
        return self.ours.rate / self.theirs.rate

    @property
    def cost(self) -> float:
        """In CPU time of both worker and server."""
        return self.ours.effort.both / self.theirs.effort.both


def in_turns(bench: Bench, rounds: int, ways: Mapping[str, Measure]) -> dict[str, list[Ran]]:
    """Round by round, so that a change of the machine's mood meets all of them."""
    found: dict[str, list[Ran]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, measure in ways.items():
            ran = measure()
            found[name].append(ran)
            bench.say(f"{name}: {ran} jobs/s")
    return found


def middle(
    ours: list[Ran], theirs: list[Ran], *, by: Callable[[Pair], float] = lambda pair: pair.ratio
) -> Pair:
    """The round whose ratio is the median of all."""
    pairs = sorted((Pair(*each) for each in zip(ours, theirs, strict=True)), key=by)
    return pairs[len(pairs) // 2]


def best(ours: list[Ran], theirs: list[Ran]) -> Pair:
    """The fastest round of each. What else runs on the machine only slows a round down, so a peer that met
    more of it than we did is not shown slower than it is.
    """
    return Pair(max(ours, key=lambda ran: ran.rate), max(theirs, key=lambda ran: ran.rate))


def rate_figure(name: str, measure: str, pair: Pair, target: Target) -> Figure:
    return Figure(name, measure, pair.ratio, target, f"{pair.ours} against {pair.theirs} jobs/s")


def cost_figure(name: str, measure: str, pair: Pair, target: Target) -> Figure:
    return Figure(name, measure, pair.cost, target, f"{pair.ours} against {pair.theirs} jobs/s")
