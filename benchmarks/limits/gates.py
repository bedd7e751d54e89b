"""The limits that are measured, and the jobs that have to pass them."""

from dataclasses import dataclass

from holdfast.domain.job import NewJob, Policy
from holdfast.domain.limit_use import LimitUse

KIND = "work"
LIMIT = "bench"
PERMITS = 1_000
"""More than a worker runs at once, so that a permit is never what a job waits for."""


@dataclass(frozen=True, slots=True)
class Gate:
    """`app`: the attribute of `benchmarks.limits.apps`. `keys`: over how many the jobs are spread in turns,
    none if the limit has no keys.
    """

    app: str
    keys: int = 0
    is_limited: bool = True

    def jobs(self, number: int, queue: str) -> list[NewJob]:
        """As `app.enqueue_many` makes them."""
        policy = Policy(KIND, queue=queue)
        return [
            NewJob(policy, f'{{"account": {each % max(self.keys, 1)}}}', limits=self._uses(each))
            for each in range(number)
        ]

    def _uses(self, number: int) -> tuple[LimitUse, ...]:
        if not self.is_limited:
            return ()
        return (LimitUse(LIMIT, str(number % self.keys) if self.keys else ""),)


NONE = Gate("unlimited", is_limited=False)
UNKEYED = Gate("unkeyed")
LOCK = Gate("lock", keys=2_000)
TURNS = Gate("turns", keys=1_000)
TOTAL_AND_KEY = Gate("total_and_key", keys=2_000)
HOT = Gate("lock", keys=1)
FEW_KEYS = Gate("lock", keys=10_000)
MANY_KEYS = Gate("lock", keys=300_000)
FLEET = Gate("fleet")
