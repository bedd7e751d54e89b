"""Claims batches: as many jobs of one kind as its handler takes in one call, for one slot.

A job is claimed when it begins and no sooner, so batches gather in `ready`, where waiting costs neither an
attempt nor a timeout, and where jobs can be cancelled like all others. The fetcher asks how many are ready,
and claims once a batch is full or its oldest job has waited for long enough. Jobs of other kinds in the queue
are claimed beside it; when slots are scarce, batches and other jobs take turns.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.runs import ClaimRow, Gathered, claim, gathered
from holdfast.worker.job_kind import Kind
from holdfast.worker.kinds_to_claim import rest_after
from holdfast.worker.lease import Lease
from holdfast.worker.slots import Slots

# The jobs of several batches are claimed together, as long as they are no more than these; so many such
# claims may follow one look.
_MOST = 500
_CLAIMS = 4
# Between two looks at a queue that woke us for jobs of other kinds: a small part of the wait, within these.
_SHORTEST_PAUSE = 0.005
_LONGEST_PAUSE = 0.05
_PART_OF_WAIT = 0.25
# A look that takes long has stepped over many jobs of other kinds. For a while only the front of the queue is
# looked at then: what is behind would have to wait for these jobs anyway, unless nobody takes them.
_WINDOW = 2_000
_LONG_SECONDS = 0.005
_WINDOWS_FOR_SECONDS = 10.0


class BatchClaims:
    """A part of the fetcher. `begin` begins the runs of one batch; `ring` has the fetcher call `once`."""

    def __init__(
        self,
        database: Database,
        schema: Schema,
        slots: Slots,
        kinds: Mapping[str, Kind],
        *,
        begin: Callable[[Lease, str, Kind, Sequence[ClaimRow]], None],
        ring: Callable[[], None],
        on_claimed: Callable[[int], None],
    ) -> None:
        self._database = database
        self._schema = schema
        self._slots = slots
        self._kinds = {name: (kind, kind.batch) for name, kind in kinds.items() if kind.batch is not None}
        self._begin = begin
        self._ring = ring
        self._on_claimed = on_claimed
        self._loop = asyncio.get_running_loop()
        waits = [batch.wait.total_seconds() for _, batch in self._kinds.values()]
        self._pause = min(max(min(waits, default=0) * _PART_OF_WAIT, _SHORTEST_PAUSE), _LONGEST_PAUSE)
        self._closed: int | None = None
        # Queues that may have a batch, and when to look there next.
        self._woken: dict[str, None] = dict.fromkeys(slots.queues) if self._kinds else {}
        self._look_at: dict[str, float] = {}
        self._whole_at: dict[str, float] = {}
        # With the time of each: a handle of uvloop for a moment that has come does not know it.
        self._timers: dict[str, tuple[float, asyncio.Handle]] = {}
        self._long: set[str] = set()
        # When the claim under way was sent. Read by the lease keeper's thread.
        self.asked_at: float | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._kinds)

    @property
    def is_any_awaited(self) -> bool:
        """Whether a queue waits to be looked at."""
        return bool(self._woken)

    def have_backlog(self, queue: str) -> bool:
        """Whether so many of these jobs are ready that a claim for other kinds has to step over them."""
        return queue in self._long

    def wake(self, queue: str) -> None:
        if self._kinds:
            self._woken[queue] = None

    async def once(self, lease: Lease) -> bool:
        """Look at each queue whose turn it is, and claim what is to begin. Returns whether to repeat at
        once.
        """
        is_more = False
        for queue in list(self._woken):
            if self._slots.room_for_batches(queue) <= 0:
                self._slots.keep(queue)
                continue
            left = self._look_at.get(queue, 0) - monotonic()
            if left > 0:
                is_more |= self._slots.keep_none(queue)
                self._come_back(queue, left)
                continue
            is_more |= await self._look(lease, queue)
        return is_more

    async def _look(self, lease: Lease, queue: str) -> bool:
        # Removed before asking: a wake-up meanwhile adds it again.
        self._woken.pop(queue, None)
        asked_at = monotonic()
        most = {
            name: batch.size * self._at_once(queue, batch.size) * _CLAIMS
            for name, (_, batch) in self._kinds.items()
        }
        is_whole = asked_at >= self._whole_at.get(queue, 0)
        window = None if is_whole else _WINDOW
        try:
            found = await self._database.run(
                gathered(self._schema, queue=queue, most=most, window=window, closed=self._closed)
            )
        except BaseException:
            self.wake(queue)
            raise
        now = monotonic()
        took = now - asked_at
        if is_whole and took > _LONG_SECONDS:
            self._whole_at[queue] = now + _WINDOWS_FOR_SECONDS
        self._look_at[queue] = now + max(self._pause, 0 if is_whole else rest_after(took))
        is_long = any(each.number == most[each.kind] for each in found)
        (self._long.add if is_long else self._long.discard)(queue)
        if self._closed != found[0].closed:
            self._closed = found[0].closed
            self.wake(queue)
        waits = [await self._claim_due(lease, queue, each) for each in found if each.number]
        if any(wait == 0 for wait in waits):
            # There may be more, and it is worth to look at once.
            self.wake(queue)
            self._look_at.pop(queue, None)
            return True
        if waits:
            self._come_back(queue, min(waits))
        return self._slots.keep_none(queue)

    async def _claim_due(self, lease: Lease, queue: str, seen: Gathered) -> float:
        """Claim the batches of this kind that are full, or the one whose oldest job has waited for long
        enough. Returns after how many seconds to look again.
        """
        kind, batch = self._kinds[seen.kind]
        full = seen.number // batch.size
        wait = batch.wait.total_seconds() - seen.oldest
        if not full and wait > 0:
            return wait
        if self._slots.room_for_batches(queue) <= 0:
            self.wake(queue)
            self._slots.keep(queue)
            return self._pause
        self._kinds[kind.name] = self._kinds.pop(kind.name)  # behind the others, if slots are scarce
        left, is_any, after = max(full, 1), False, None
        while left and self._slots.room_for_batches(queue) > 0:
            number = min(left, self._at_once(queue, batch.size))
            jobs = await self._claim(lease, queue, kind, number * batch.size, after)
            is_any = is_any or bool(jobs)
            if len(jobs) < number * batch.size:
                break
            left -= number
            # What others hold, or what comes before it, is for the claim after the next look.
            after = (jobs[-1].priority, jobs[-1].job or 0)
        return 0 if is_any else self._pause

    async def _claim(
        self, lease: Lease, queue: str, kind: Kind, limit: int, after: tuple[int, int] | None
    ) -> Sequence[ClaimRow]:
        assert kind.batch is not None, "only such kinds come here"  # noqa: S101  # for the type checker
        size = kind.batch.size
        self.asked_at = monotonic()
        try:
            rows = await self._database.run(
                claim(
                    self._schema,
                    worker=lease.worker,
                    queue=queue,
                    kinds=(kind.name,),
                    limit=limit,
                    closed=self._closed,
                    after=after,
                    is_quick=after is not None,
                )
            )
            jobs = [row for row in rows if row.job is not None]
            batches = [jobs[first : first + size] for first in range(0, len(jobs), size)]
            self._slots.take_for_batches(queue, len(batches))
            for each in batches:
                self._begin(lease, queue, kind, each)
        finally:
            self.asked_at = None
        self._closed = rows[0].closed
        self._on_claimed(len(jobs))
        return jobs

    def _at_once(self, queue: str, size: int) -> int:
        """How many batches to claim together: never more than half of the free slots."""
        return max(min((self._slots.room_for_batches(queue) + 1) // 2, _MOST // size), 1)

    def _come_back(self, queue: str, seconds: float) -> None:
        now = self._loop.time()
        at = now + seconds
        if (earlier := self._timers.get(queue)) is not None:
            due_at, handle = earlier
            if now < due_at <= at:
                return
            handle.cancel()
        self._timers[queue] = at, self._loop.call_at(at, self._due, queue)

    def _due(self, queue: str) -> None:
        self._timers.pop(queue, None)
        self._look_at.pop(queue, None)
        self.wake(queue)
        self._ring()
