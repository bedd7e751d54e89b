"""The fetcher begins the runs of a full claim while it claims the next; none of them counts as forgotten."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from holdfast.domain.job import NewJob, Policy
from holdfast.postgres.database import Database
from holdfast.storage.jobs import enqueue
from holdfast.storage.runs import ClaimRow
from holdfast.worker import claim_starts
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.lease import Lease
from holdfast.worker.slots import Slots
from support.engine import SCHEMA, Engine
from support.waiting import until


class Begun:
    """What was begun, claim by claim, and what the fetcher said of itself just before."""

    def __init__(self) -> None:
        self.claims: list[int] = []
        self.jobs: list[int | None] = []
        self.was_claiming: list[bool] = []
        self.fetcher: Fetcher | None = None

    def begin(self, lease: Lease, queue: str, rows: Sequence[ClaimRow]) -> None:
        assert self.fetcher is not None
        self.was_claiming.append(self.fetcher.claiming_since is not None)
        self.claims.append(len(rows))
        self.jobs += [row.job for row in rows]


@asynccontextmanager
async def fetching(
    dsn: str, engine: Engine, begun: Begun, *, slots: int, is_busy: bool = False
) -> AsyncIterator[tuple[Fetcher, Slots]]:
    worker = engine.worker()
    async with Database(dsn) as database:
        free = Slots({"default": slots}, lambda: None)
        fetcher = begun.fetcher = Fetcher(
            database,
            SCHEMA,
            free,
            ("mail",),
            poll=timedelta(minutes=5),
            lease=lambda: Lease(worker, math.inf),
            begin=begun.begin,
            is_clogged=lambda: False,
            on_claimed=lambda _: None,
            is_busy=lambda: is_busy,
        )
        yield fetcher, free


async def test_a_full_claim_keeps_its_slots_before_it_has_begun(dsn: str) -> None:
    begun = Begun()
    with Engine.on(dsn, now=None) as engine:
        for _ in range(10):
            engine.enqueue()
        async with fetching(dsn, engine, begun, slots=8) as (fetcher, slots):
            assert await fetcher.once()
            assert begun.claims == []
            assert slots.free("default") == 4
            assert fetcher.claiming_since is not None
            assert await fetcher.once()
            assert begun.claims == [4]
            assert not await fetcher.once(), "no slot is free"
            assert slots.used == 8
            await asyncio.sleep(0)
            assert begun.claims == [4, 4]
            assert begun.was_claiming == [True, True]
            assert fetcher.claiming_since is None


async def test_what_was_claimed_has_begun_when_the_fetcher_rests(dsn: str) -> None:
    begun = Begun()
    with Engine.on(dsn, now=None) as engine:
        for _ in range(10):
            engine.enqueue()
        async with fetching(dsn, engine, begun, slots=4) as (fetcher, slots):
            claiming = asyncio.create_task(fetcher.once())
            await asyncio.sleep(0)
            assert fetcher.claiming_since is not None
            await fetcher.rest()
            assert begun.claims == [slots.used] == [2]
            await claiming
            assert not await fetcher.once(), "it rests"


async def test_a_claim_that_is_not_full_begins_at_once(dsn: str) -> None:
    begun = Begun()
    with Engine.on(dsn, now=None) as engine:
        engine.enqueue()
        async with fetching(dsn, engine, begun, slots=8) as (fetcher, _):
            assert await fetcher.once()
            assert begun.claims == [1]
            assert fetcher.claiming_since is None


URGENT = Policy("mail", priority=0)


@pytest.mark.parametrize("patience", [60.0, 0.0])
async def test_many_jobs_are_claimed_one_behind_the_other_for_a_moment(
    dsn: str, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_starts, "_BEHIND_FOR_SECONDS", patience)
    begun = Begun()
    with Engine.on(dsn, now=None) as engine:
        engine.run(enqueue(SCHEMA, [NewJob(Policy("mail"))] * 200, notify=False))
        async with fetching(dsn, engine, begun, slots=200) as (fetcher, slots):
            assert await fetcher.once()
            urgent = engine.enqueue(URGENT)
            assert await fetcher.once()
            await asyncio.sleep(0)
            assert begun.claims == [100, 100]
            assert (urgent in begun.jobs) == (not patience)
            slots.take("default", -200)
            # Whatever was passed by is found before the fetcher sleeps.
            for _ in range(5):
                if not await fetcher.once():
                    break
    assert len(set(begun.jobs)) == 201


async def test_a_wake_up_leads_back_to_the_most_urgent_job(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_starts, "_BEHIND_FOR_SECONDS", 60.0)
    begun = Begun()
    with Engine.on(dsn, now=None) as engine:
        engine.run(enqueue(SCHEMA, [NewJob(Policy("mail"))] * 500, notify=False))
        async with fetching(dsn, engine, begun, slots=1_000) as (fetcher, slots):
            slots.take("default", 800)
            assert await fetcher.once()
            urgent = engine.enqueue(URGENT)
            fetcher.wake("default")
            slots.take("default", -200)
            assert await fetcher.once()
            await asyncio.sleep(0)
            assert begun.claims == [200, 200]
            assert begun.jobs[200] == urgent
            # Woken while a claim is under way: what it brings says nothing of where the next is to begin.
            slots.take("default", -100)
            claiming = asyncio.create_task(fetcher.once())
            await asyncio.sleep(0)
            later = engine.enqueue(URGENT)
            fetcher.wake()
            await claiming
            slots.take("default", -100)
            await fetcher.once()
            await asyncio.sleep(0)
            assert later in begun.jobs[400:502]


@pytest.mark.parametrize("patience", [60.0, 0.0])
async def test_small_full_claims_go_on_behind_each_other_from_the_second_on(
    dsn: str, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_starts, "_BEHIND_FOR_SECONDS", patience)
    begun = Begun()
    with Engine.on(dsn, now=None) as engine:
        jobs = [engine.enqueue() for _ in range(20)]
        async with fetching(dsn, engine, begun, slots=8) as (fetcher, slots):
            urgent = []
            for _ in range(4):
                assert await fetcher.once()
                urgent.append(engine.enqueue(URGENT))
                slots.take("default", -4)
            await asyncio.sleep(0)
            # The third goes on behind the second, past what came before that.
            by_patience = {60.0: [*jobs[:4], urgent[0], *jobs[4:15]], 0.0: [*jobs[:4], urgent[0]]}
            assert begun.jobs[: len(by_patience[patience])] == by_patience[patience]
            assert (urgent[1] in begun.jobs) == (not patience)
            for _ in range(5):
                await fetcher.once()
                await asyncio.sleep(0)
                slots.take("default", -4)
    assert set(urgent) < set(begun.jobs)


async def test_after_one_small_full_claim_the_next_begins_at_the_front(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual end of a lone job's claim: it must not cost a claim more than it has to."""
    monkeypatch.setattr(claim_starts, "_BEHIND_FOR_SECONDS", 60.0)
    begun = Begun()
    with Engine.on(dsn, now=None) as engine:
        engine.enqueue()
        async with fetching(dsn, engine, begun, slots=2) as (fetcher, _):
            assert await fetcher.once()
            assert not await fetcher.once(), "it was asked twice about nothing"


async def test_a_job_whose_claim_was_rolled_back_is_found_before_the_fetcher_sleeps(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_starts, "_QUICK_FOR_SECONDS", 60.0)
    begun = Begun()
    with Engine.on(dsn, now=None) as engine, Engine.on(dsn, now=None) as other:
        jobs = [engine.enqueue() for _ in range(9)]
        async with fetching(dsn, engine, begun, slots=4) as (fetcher, slots):
            for _ in range(2):
                assert await fetcher.once()
                slots.take("default", -2)
            with other.connection.transaction(force_rollback=True):
                assert [row.job for row in other.claim(other.worker(), limit=1)] == jobs[4:5]
            while await fetcher.once():
                await asyncio.sleep(0)
                slots.take("default", -slots.used)
    assert begun.jobs == [*jobs[:4], *jobs[5:], jobs[4]]


@pytest.mark.parametrize("is_busy", [True, False])
async def test_a_busy_worker_with_a_backlog_claims_for_half_of_its_slots_at_once(
    dsn: str, is_busy: bool
) -> None:
    begun = Begun()
    with Engine.on(dsn, now=None) as engine:
        engine.run(enqueue(SCHEMA, [NewJob(Policy("mail"))] * 40, notify=False))
        async with fetching(dsn, engine, begun, slots=8, is_busy=is_busy) as (fetcher, slots):
            assert await fetcher.once()
            assert await fetcher.once()
            assert not await fetcher.once(), "no slot is free"
            slots.give_back("default")
            assert await fetcher.once() is not is_busy, "one slot is free"
            slots.give_back("default")
            slots.give_back("default")
            assert await fetcher.once() is not is_busy
            slots.give_back("default")
            assert await fetcher.once()
            await asyncio.sleep(0)
    assert begun.claims == ([4, 4, 4] if is_busy else [4, 4, 1, 2, 1])


async def test_slots_that_gather_are_claimed_for_in_time_although_the_others_stay_taken(dsn: str) -> None:
    begun = Begun()
    with Engine.on(dsn, now=None) as engine:
        engine.run(enqueue(SCHEMA, [NewJob(Policy("mail"))] * 40, notify=False))
        async with fetching(dsn, engine, begun, slots=8, is_busy=True) as (fetcher, slots):
            fetching_on = asyncio.create_task(fetcher.run())
            await until(lambda: slots.used == 8, "all slots are taken")
            slots.give_back("default")
            fetcher.slot_freed()
            await until(lambda: begun.claims == [4, 4, 1], "it did not wait for the others for ever")
            fetching_on.cancel()
            await asyncio.wait([fetching_on])
