"""The sweeper of gates goes through all keys when it is woken, however many there are."""

from collections.abc import AsyncIterator

import psycopg
import pytest

from holdfast import App
from holdfast.postgres.database import Database
from holdfast.worker.chores import gate_sweeper
from holdfast.worker.chores.gate_sweeper import GateSweeper


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with App(dsn) as app:
        yield app


async def test_a_sweep_that_was_woken_goes_on_behind_its_first_page(
    app: App, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_sweeper, "_PAGE", 3)
    lock = app.limit("lock", per_key=1)

    @app.job(limit=lock.by("key"))
    async def work(key: int) -> None: ...

    await app.enqueue_many(work.call(number) for number in range(8))
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(
            "insert into holdfast.worker"
            " (host, pid, version, queues, kinds, slots, started_at, beat_at, expires_at)"
            " values ('here', 1, '0', '{default}', '{work}', 1, now(), now(), now() + interval '1 hour')"
        )
        await connection.execute("delete from holdfast.knock")
        async with Database(dsn) as database:
            sweeper = GateSweeper(database, app.schema)
            await sweeper.once()
            turns = 1
            while (await sweeper.once()).is_more:
                turns += 1
                assert turns < 10
        knocked = await connection.execute("select count(distinct key) from holdfast.knock")
        assert await knocked.fetchall() == [(8,)]
