"""A queue whose end was found is looked at where new rows go; whatever may lie elsewhere is found, too."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from holdfast.postgres.database import Database
from holdfast.storage.runs import ClaimRow
from holdfast.storage.session import SETTINGS
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.slots import Slots
from support.engine import SCHEMA, Engine


class Fetching:
    """A fetcher of one queue, and what it has begun."""

    def __init__(self, engine: Engine, database: Database) -> None:
        worker = engine.worker()
        self.begun: list[int | None] = []
        self.fetcher = Fetcher(
            database,
            SCHEMA,
            Slots({"default": 10}, on_free=lambda: None),
            ("mail",),
            poll=timedelta(minutes=5),
            worker=lambda: worker,
            begin=self._begin,
            is_clogged=lambda: False,
            on_claimed=lambda _: None,
        )
        self.engine = engine

    def _begin(self, worker: int, queue: str, row: ClaimRow) -> None:
        assert (worker, queue) == (1, "default")
        self.begun.append(row.job)

    async def until_nothing_promises(self) -> int:
        """Claims as its service would without any sleep between. How often it asked."""
        asked = 0
        while self.fetcher._promising:  # what `run` looks at
            await self.fetcher.once()
            asked += 1
        return asked

    def put(self, segment: int) -> int:
        """A job in this segment, whichever is current."""
        job = self.engine.enqueue()
        self.engine.connection.execute(
            "update holdfast.ready set segment = %s where job = %s", [segment, job]
        )
        return job


@pytest.fixture
async def fetching(dsn: str) -> AsyncIterator[Fetching]:
    async with Database(dsn, session=SETTINGS) as database:
        with Engine.on(dsn, now=None) as engine:
            fetching = Fetching(engine, database)
            assert await fetching.until_nothing_promises() == 1
            yield fetching


async def test_a_new_job_is_found_at_the_first_look(fetching: Fetching) -> None:
    job = fetching.put(0)
    fetching.fetcher.wake("default")
    assert await fetching.until_nothing_promises() == 1
    assert fetching.begun == [job]


@pytest.mark.parametrize("segment", [1, 2, 3])
async def test_a_job_in_a_segment_that_is_not_current_is_found_when_there_is_no_other(
    fetching: Fetching, segment: int
) -> None:
    """Put there by a producer whose snapshot is from before the ring turned."""
    job = fetching.put(segment)
    fetching.fetcher.wake("default")
    await fetching.until_nothing_promises()
    assert fetching.begun == [job]


async def test_a_turn_of_the_ring_is_a_reason_to_look_everywhere(fetching: Fetching) -> None:
    before, after = fetching.put(0), fetching.put(1)
    fetching.engine.connection.execute("update holdfast.ring set current = 1, version = version + 1")
    fetching.fetcher.wake("default")
    await fetching.until_nothing_promises()
    assert fetching.begun == [before, after]


async def test_whoever_does_not_know_where_has_all_looked_at(fetching: Fetching) -> None:
    """A gap in listening, a queue that is resumed: jobs may lie anywhere, the oldest first."""
    older, newer = fetching.put(2), fetching.put(0)
    fetching.fetcher.wake()
    assert await fetching.until_nothing_promises() == 1
    assert fetching.begun == [older, newer]


async def test_a_poll_that_sees_something_has_all_looked_at(fetching: Fetching) -> None:
    older, newer = fetching.put(2), fetching.put(0)
    await fetching.fetcher._look()  # what a poll does
    assert await fetching.until_nothing_promises() == 1
    assert fetching.begun == [older, newer]
