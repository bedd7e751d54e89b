"""The leader hears of a worker whose lease has run out when it renews its own, and rarely asks apart."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from holdfast.postgres.database import Database
from holdfast.telemetry.events import Emitter
from holdfast.worker.chores.leader import Leader
from holdfast.worker.chores.pace import Chore, Did
from support.engine import SCHEMA, Engine

LONG = 600.0


@pytest.mark.requirement("S3.21")
async def test_the_renewal_of_leadership_wakes_the_rescue_of_a_silent_worker(dsn: str) -> None:
    turns: asyncio.Queue[None] = asyncio.Queue()

    async def once() -> Did:
        turns.put_nowait(None)
        return Did()

    def chores() -> Sequence[Chore]:
        return [Chore("rescue", once, Emitter(), shortest=LONG, longest=LONG)]

    with Engine.on(dsn, now=None) as engine:
        leading, silent = engine.worker(), engine.worker()
        async with Database(dsn) as database:
            leader = Leader(
                database,
                SCHEMA,
                Emitter(),
                chores,
                worker=lambda: leading,
                lease=timedelta(seconds=0.5),
            )
            task = asyncio.create_task(leader.run())
            async with asyncio.timeout(30):
                await turns.get()  # its first turn, before anybody was silent
                engine.connection.execute(
                    "update holdfast.worker set expires_at = now() - interval '1 s' where id = %s",
                    [silent],
                )
                await turns.get()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
