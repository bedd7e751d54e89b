"""How many more jobs of each queue may run here."""

from collections.abc import Callable, Mapping


class Slots:
    def __init__(self, limits: Mapping[str, int], on_free: Callable[[], None]) -> None:
        self._limits = dict(limits)
        self._used = dict.fromkeys(limits, 0)
        self._on_free = on_free

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(self._limits)

    @property
    def total(self) -> int:
        return sum(self._limits.values())

    @property
    def used(self) -> int:
        return sum(self._used.values())

    def free(self, queue: str) -> int:
        return self._limits[queue] - self._used[queue]

    def share(self, queue: str, most: int) -> int:
        """How many to claim at once: never more than half of all slots, so that one half runs while the other
        is claimed and settled.
        """
        return min(self.free(queue), most, (self._limits[queue] + 1) // 2)

    def take(self, queue: str, number: int) -> None:
        self._used[queue] += number

    def give_back(self, queue: str) -> None:
        self._used[queue] -= 1
        self._on_free()
