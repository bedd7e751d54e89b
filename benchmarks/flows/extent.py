"""How much of everything is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Extent:
    """The defaults are those of the targets. `slow_flows`: for a system that would take minutes."""

    flows: int = 1_000
    slow_flows: int = 200
    concurrency: int = 500
    rounds: int = 3
    lone_steps: int = 1_000
    sleeping: int = 1_000_000
    jobs: int = 20_000

    @classmethod
    def quick(cls) -> "Extent":
        """Large enough to run every line, too small to mean anything."""
        return cls(flows=50, slow_flows=10, rounds=1, lone_steps=20, sleeping=2_000, jobs=500)
