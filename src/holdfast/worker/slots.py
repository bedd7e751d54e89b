"""How many more jobs of each queue may run here."""

from collections.abc import Callable, Collection, Mapping

from holdfast.worker.job_kind import Kinds
from holdfast.worker.queue_choice import DefaultSlots

# How far the slots of an elastic queue go beyond their number, and which part of them may be in use by jobs
# that have not ended at once.
_STRETCH = 5
_FEW = 10


def elastic_queues(queues: Mapping[str, int], kinds: Kinds) -> frozenset[str]:
    """Those whose slots nobody has set, unless a job may need a thread: a job that is claimed begins, and
    there are as many threads as slots.
    """
    if any(kind.style not in ("coroutine", "process") for kind in kinds.values()):
        return frozenset()
    return frozenset(queue for queue, slots in queues.items() if isinstance(slots, DefaultSlots))


class Slots:
    """A claim of one job costs nearly as much as a claim of many, so jobs that end at once are claimed
    many at a time. The slots of an `elastic` queue double with each full claim, up to five times their
    number, as long as nearly all jobs of the claims before have ended when it is answered. When they have
    not, their number holds again: jobs that take their time are left to other workers.
    """

    def __init__(
        self,
        limits: Mapping[str, int],
        on_free: Callable[[], None],
        elastic: Collection[str] = (),
        *,
        on_more: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`on_more` is told how many more jobs may run at once than before, before they do."""
        self._limits = dict(limits)
        self._elastic = frozenset(elastic)
        self._for_now = dict(limits)
        self._was_full: set[str] = set()
        self._used = dict.fromkeys(limits, 0)
        self._on_free = on_free
        self._on_more = on_more
        self._kept: dict[str, int] = {}
        self._may_keep = set(limits)

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(self._limits)

    @property
    def total(self) -> int:
        return sum(self._limits.values())

    @property
    def numbers(self) -> tuple[int, ...]:
        """One for each of the queues. Read by the lease keeper's thread."""
        return tuple(self._limits.values())

    def limit(self, queue: str) -> int | None:
        """None of a queue that is not served here."""
        return self._limits.get(queue)

    def change(self, queue: str, number: int) -> None:
        """Set by an operator, so it is elastic no longer. If more jobs run than that, they run to their ends,
        and none is claimed until then.
        """
        self._on_more(max(0, number - self._limits[queue]))
        self._limits[queue] = self._for_now[queue] = number
        self._elastic -= {queue}
        self._was_full.discard(queue)

    @property
    def usage(self) -> dict[str, tuple[int, int]]:
        """Of each queue, how many slots are used and how many there are. Read by other threads."""
        return {queue: (self._used[queue], limit) for queue, limit in tuple(self._limits.items())}

    @property
    def used(self) -> int:
        return sum(self._used.values())

    def free(self, queue: str) -> int:
        """Negative when more run than the queue's number, which holds again."""
        return self._for_now[queue] - self._used[queue] - self._kept.get(queue, 0)

    def share(self, queue: str, most: int) -> int:
        """How many to claim at once: never more than half of all slots, so that one half runs while the other
        is claimed and settled.
        """
        return min(self.free(queue), most, self.half(queue))

    def take(self, queue: str, number: int) -> None:
        """The jobs of a claim."""
        if queue in self._elastic:
            self._stretch(queue, is_full=number >= self.half(queue))
        self._used[queue] += number
        self._may_keep.add(queue)

    def room_for_batches(self, queue: str) -> int:
        """How many batches may be claimed, each of which takes one slot."""
        return self._for_now[queue] - self._used[queue]

    def keep(self, queue: str) -> None:
        """A batch waits for a slot: the next one that is free is for batches, unless the last one was."""
        if queue in self._may_keep:
            self._kept[queue] = 1

    def keep_none(self, queue: str) -> bool:
        """No batch waits any more. Returns whether a slot was kept for one."""
        return self._kept.pop(queue, 0) > 0

    def take_for_batches(self, queue: str, number: int) -> None:
        """From now on it is the turn of other jobs, if these wait."""
        self._kept.pop(queue, None)
        self._may_keep.discard(queue)
        self._used[queue] += number

    def give_back(self, queue: str) -> None:
        self._used[queue] -= 1
        self._on_free()

    def half(self, queue: str) -> int:
        return (self._for_now[queue] + 1) // 2

    def _stretch(self, queue: str, *, is_full: bool) -> None:
        """Judged by the jobs of the claim before, if that was a full one: it says nothing otherwise."""
        limit = self._limits[queue]
        have_ended = queue in self._was_full and self._used[queue] <= limit // _FEW
        wider = min(self._for_now[queue] * 2, limit * _STRETCH)
        self._for_now[queue] = wider if is_full and have_ended else limit
        if is_full:
            self._was_full.add(queue)
        else:
            self._was_full.discard(queue)
