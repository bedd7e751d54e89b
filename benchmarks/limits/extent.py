"""How much of everything is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Extent:
    """The defaults are those of the targets. `lone_jobs`: of rows that run them one after the other.
    `many_jobs`: for the row about many keys. `batch_share`: of the jobs that the benchmark of batches has.
    """

    rounds: int = 5
    long_rounds: int = 3
    jobs: int = 40_000
    enqueued: int = 25_000
    lone_jobs: int = 2_000
    many_jobs: int = 300_000
    fleet_jobs: int = 40_000
    batch_share: float = 1.0

    @classmethod
    def quick(cls) -> "Extent":
        """Large enough to run every line, too small to mean anything."""
        return cls(
            rounds=1,
            long_rounds=1,
            jobs=2_000,
            enqueued=2_000,
            lone_jobs=100,
            many_jobs=2_000,
            fleet_jobs=2_000,
            batch_share=0.02,
        )
