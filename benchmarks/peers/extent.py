"""How much of everything is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Extent:
    """The defaults are those of the targets."""

    jobs: int = 50_000
    concurrency: int = 500
    rounds: int = 3
    single_seconds: float = 4
    latency_jobs: int = 1_000
    in_flight: int = 1_000
    idle_seconds: float = 30
    soak_seconds: float = 600

    @classmethod
    def quick(cls) -> "Extent":
        """Large enough to run every line, too small to mean anything."""
        return cls(
            jobs=2_000,
            rounds=1,
            single_seconds=0.5,
            latency_jobs=100,
            idle_seconds=5,
            soak_seconds=15,
        )
