"""Claims jobs for free slots and begins them. Sleeps until a wake-up, a free slot or the next poll."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from time import monotonic

from holdfast.errors import DatabaseError
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.storage.runs import ClaimRow, claim, look
from holdfast.worker.batch_claims import BatchClaims
from holdfast.worker.claim_gathering import Busyness, ClaimGathering
from holdfast.worker.claim_starts import ClaimStarts
from holdfast.worker.job_kind import Kind
from holdfast.worker.kinds_to_claim import ClaimRequest, KindsToClaim
from holdfast.worker.lease import Lease
from holdfast.worker.processes.places import Places
from holdfast.worker.service import Alarm
from holdfast.worker.slots import Slots

BATCH = 500

_log = logging.getLogger("holdfast.worker")


class Fetcher:
    """Remembers which queues may have jobs: those woken, and those whose last claim came back full."""

    def __init__(
        self,
        database: Database,
        schema: Schema,
        slots: Slots,
        kinds: tuple[str, ...],
        *,
        poll: timedelta,
        lease: Callable[[], Lease | None],
        begin: Callable[[Lease, str, Sequence[ClaimRow]], None],
        is_clogged: Callable[[], bool],
        on_claimed: Callable[[int], None],
        isolated: Sequence[str] = (),
        places: Places | None = None,
        batched: Mapping[str, Kind] | None = None,
        begin_batch: Callable[[Lease, str, Kind, Sequence[ClaimRow]], None] = lambda *_: None,
        is_busy: Callable[[], bool] | None = None,
    ) -> None:
        self._database = database
        self._schema = schema
        self._slots = slots
        self._alarm = Alarm()
        self._batches = BatchClaims(
            database,
            schema,
            slots,
            batched or {},
            begin=begin_batch,
            ring=self._alarm.ring,
            on_claimed=on_claimed,
        )
        others = tuple(kind for kind in kinds if kind not in self._batches.kinds)
        self._kinds = KindsToClaim(others, isolated, places, self._batches.have_backlog)
        self._poll = poll.total_seconds()
        self._lease = lease
        self._begin = begin
        self._is_clogged = is_clogged
        self._on_claimed = on_claimed
        self._loop = asyncio.get_running_loop()
        self._promising: dict[str, None] = dict.fromkeys(slots.queues)
        self._closed: int | None = None
        self._is_resting = False
        self._is_quiet = False
        self._starts = ClaimStarts()
        self._gathering = ClaimGathering(is_busy or Busyness().look, self._loop.call_later, self._alarm.ring)
        self._asked_at: float | None = None
        self._answered_at: float | None = None
        self._busy = asyncio.Lock()
        self._failures = FailureLog(_log, "claiming jobs")

    @property
    def claiming_since(self) -> float | None:
        """When the oldest claim was sent whose runs may still have to begin. Read by the lease keeper's
        thread.
        """
        return self._answered_at or self._asked_at or self._batches.asked_at

    async def rest(self) -> None:
        """Claim nothing from now on. Waits for a claim under way, whose jobs still begin."""
        self._is_resting = True
        async with self._busy:
            pass

    async def quieten(self) -> None:
        """Claim nothing until `go_on`. Waits for a claim under way, whose jobs still begin."""
        self._is_quiet = True
        async with self._busy:
            pass

    def go_on(self) -> None:
        self._is_quiet = False
        self.wake()

    def wake(self, queue: str | None = None) -> None:
        """A job may be ready in this queue, or with None in any queue."""
        queues = self._slots.queues
        woken = queues if queue is None else (queue,) if queue in queues else ()
        for each in woken:
            self._promising[each] = None
            self._starts.wake(each)
            self._batches.wake(each)
        if woken:
            self._alarm.ring()

    def slot_freed(self) -> None:
        if self._batches.is_any_awaited or any(map(self._may_claim, self._promising)):
            self._alarm.ring()

    def _may_claim(self, queue: str) -> bool:
        """Whether it has a free slot, and need not wait until others are free."""
        free = self._slots.free(queue)
        return free > 0 and self._gathering.may_claim(queue, is_half_free=free >= self._slots.half(queue))

    def place_freed(self) -> None:
        """A child process can take a job: ask the queues again whose last claim left such jobs out."""
        queues = self._kinds.left_out()
        if queues:
            self._promising.update(queues)
            self._alarm.ring()

    async def run(self) -> None:
        while True:
            try:
                if await self.once():
                    continue
                if not await self._alarm.sleep(self._poll) and not self._promising and not self._is_quiet:
                    await self._look()
            except DatabaseError as error:
                self._failures.failed(error)
                self._expect(self._slots.queues)
                await asyncio.sleep(min(1.0, self._poll))

    async def once(self) -> bool:
        """Claim once from each promising queue that has a free slot. Returns whether to repeat at once."""
        is_more = False
        for queue in [name for name in self._promising if self._may_claim(name)]:
            async with self._busy:
                lease = self._lease_to_claim_with()
                if lease is None:
                    return False
                # Removed before asking: a wake-up during the claim adds it again.
                self._promising.pop(queue, None)
                asking = self._kinds.ask(queue, self._slots.share(queue, BATCH), monotonic())
                if asking is not None:
                    is_more |= await self._claim(lease, queue, asking)
        if self._batches.is_any_awaited:
            async with self._busy:
                if lease := self._lease_to_claim_with():
                    is_more |= await self._batches.once(lease)
        return is_more

    def _lease_to_claim_with(self) -> Lease | None:
        lease = self._lease()
        if lease is None or lease.is_over or self._is_resting or self._is_quiet or self._is_clogged():
            return None
        return lease

    async def _claim(self, lease: Lease, queue: str, asking: ClaimRequest) -> bool:
        asked_at = self._asked_at = monotonic()
        start = self._starts.take(queue, asking, asked_at)
        try:
            rows = await self._database.run(
                claim(
                    self._schema,
                    worker=lease.worker,
                    queue=queue,
                    kinds=asking.kinds,
                    limit=asking.limit,
                    closed=self._closed,
                    after=start.after,
                    is_quick=start.is_quick,
                )
            )
            jobs = [row for row in rows if row.job is not None]
            if (rows[0].picked or 0) != len(jobs):
                _tell_of_swept(queue, (rows[0].picked or 0) - len(jobs))
            is_full = len(jobs) == asking.limit
            if not asking.places:  # with places, it is not the slots that bound it
                self._gathering.answered(queue, is_full=is_full)
            self._take(lease, queue, jobs, is_full=is_full)
        except BaseException:
            self._kinds.failed(asking)
            raise
        finally:
            self._asked_at = None
        self._failures.worked()
        now = monotonic()
        is_more = self._kinds.answered(queue, asking, jobs, took=now - asked_at, now=now)
        if is_full:
            is_woken = queue in self._promising
            self._starts.came_back_full(
                queue, asking, start, jobs[-1], is_woken=is_woken, asked_at=asked_at, now=now
            )
        if is_more or start.is_quick or self._closed != rows[0].closed:
            self._promising[queue] = None
        if rest := not is_more and self._kinds.rest(queue, now):
            self._loop.call_later(rest, self._promise, queue)
        self._closed = rows[0].closed
        self._on_claimed(len(jobs))
        if jobs and not is_full:
            await asyncio.sleep(0)  # nothing more to claim: let these start first
        return bool(jobs or start.is_quick or is_more)

    def _promise(self, queue: str) -> None:
        self._promising[queue] = None
        self._alarm.ring()

    def _take(self, lease: Lease, queue: str, jobs: Sequence[ClaimRow], *, is_full: bool) -> None:
        self._slots.take(queue, len(jobs))
        self._answered_at = self._asked_at
        if is_full:
            # There may be more: the next claim is sent first, and these begin while Postgres works on it.
            self._loop.call_soon(self._begin_now, lease, queue, jobs)
        else:
            self._begin_now(lease, queue, jobs)

    def _begin_now(self, lease: Lease, queue: str, jobs: Sequence[ClaimRow]) -> None:
        try:
            self._begin(lease, queue, jobs)
        finally:
            self._answered_at = None

    async def _look(self) -> None:
        """The poll: one statement for all queues."""
        kinds = (*self._kinds.to_look_for(), *self._batches.kinds)
        if not kinds:
            return
        seen = (
            await self._database.run(
                look(self._schema, queues=self._slots.queues, kinds=kinds, closed=self._closed)
            )
        )[0]
        self._closed = seen.closed
        self._expect(seen.queues)

    def _expect(self, queues: Iterable[str]) -> None:
        for queue in queues:
            self._promising[queue] = None
            self._batches.wake(queue)


def _tell_of_swept(queue: str, count: int) -> None:
    """Holdfast itself leaves no such rows: tables were changed by hand."""
    _log.warning(
        "dropped %s of queue %s from ready without running: the jobs have ended before, or are gone",
        count,
        queue,
    )
