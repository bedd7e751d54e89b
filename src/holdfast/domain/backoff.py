"""How long to wait before trying again: growing lengths with jitter, decided from the number of failures."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Exponential:
    """`base`, `base * factor`, `base * factor²`, … up to `cap`, each up to `jitter` longer or shorter."""

    base: timedelta
    factor: float = 2.0
    cap: timedelta = timedelta(hours=24)
    jitter: float = 0.25

    def delay(self, failures: int, luck: float) -> timedelta:
        """The wait after the n-th failure in a row; `luck` in [0, 1) is drawn by the caller."""
        steps = min(max(failures, 1) - 1, 64)
        growth = min(self.factor**steps, self.cap / self.base)
        return min(self.base * growth * (1 + self.jitter * (2 * luck - 1)), self.cap)
