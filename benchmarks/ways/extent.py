"""How much of everything is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Extent:
    """The defaults are those of the targets. A round takes one to three seconds on each side.

    `long_rounds`: of rows that take long. `few_jobs`: of systems that run them in small batches.
    `fewest_jobs`: of systems that run them one after the other.
    """

    rounds: int = 5
    long_rounds: int = 3
    jobs: int = 30_000
    logged_jobs: int = 30_000
    few_jobs: int = 10_000
    fewest_jobs: int = 1_000
    transactions: int = 4_000
    lone_transactions: int = 1_500
    thread_jobs: int = 20_000
    child_jobs: int = 4_000
    computed_jobs: int = 500
    process_jobs: int = 50_000
    lone_steps: int = 1_000
    soak_seconds: float = 120
    soak_jobs: int = 50_000

    @classmethod
    def quick(cls) -> "Extent":
        """Large enough to run every line, too small to mean anything."""
        return cls(
            rounds=1,
            long_rounds=1,
            jobs=1_000,
            logged_jobs=1_000,
            few_jobs=500,
            fewest_jobs=100,
            transactions=300,
            lone_transactions=100,
            thread_jobs=500,
            child_jobs=200,
            computed_jobs=20,
            process_jobs=2_000,
            lone_steps=20,
            soak_seconds=3,
            soak_jobs=2_000,
        )
