"""The leader hears of a worker whose lease has run out when it renews its own, and rarely asks apart."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from holdfast.domain.retention import Retention
from holdfast.postgres.database import Database
from holdfast.telemetry.events import Emitter
from holdfast.worker.chores.chore import Chore, ChoreNeeds, Did, Sign
from holdfast.worker.chores.leader import Leader
from holdfast.worker.unserved_warnings import UnservedWarnings
from support.engine import SCHEMA, Engine
from support.waiting import until

LONG = 600.0


def needs(database: Database) -> ChoreNeeds:
    return ChoreNeeds(
        database,
        SCHEMA,
        Emitter(),
        Retention(),
        timedelta(seconds=LONG),
        on_end=lambda: None,
        unserved=UnservedWarnings(database, SCHEMA, Emitter()),
    )


@pytest.mark.requirement("S3.21")
async def test_the_renewal_of_leadership_wakes_the_rescue_of_a_silent_worker(dsn: str) -> None:
    turns: asyncio.Queue[None] = asyncio.Queue()

    class Rescuing:
        async def once(self) -> Did:
            turns.put_nowait(None)
            return Did()

    rescue = Chore(
        name="rescue",
        make=lambda _: Rescuing(),
        shortest=LONG,
        longest=LONG,
        woken_by=(Sign.SILENT_WORKER,),
    )
    with Engine.on(dsn, now=None) as engine:
        leading, silent = engine.worker(), engine.worker()
        async with Database(dsn) as database:
            leader = Leader(
                database,
                [rescue],
                needs(database),
                worker=lambda: leading,
                lease=timedelta(seconds=0.5),
            )
            task = asyncio.create_task(leader.run())
            async with asyncio.timeout(30):
                await turns.get()  # its first turn, before any worker was silent
                engine.connection.execute(
                    "update holdfast.worker set expires_at = now() - interval '1 s' where id = %s",
                    [silent],
                )
                await turns.get()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_a_leader_that_gets_no_answer_says_from_where_and_for_how_long(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Engine.on(dsn, now=None) as engine:
        worker = engine.worker()
        async with Database(dsn) as database:
            leader = Leader(
                database, [], needs(database), worker=lambda: worker, lease=timedelta(seconds=0.3)
            )
            with engine.connection.transaction():
                engine.connection.execute("lock table holdfast.leader")
                task = asyncio.create_task(leader.run())
                await until(lambda: "asking to lead fails" in caplog.text, "it is said")
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    [line] = [line for line in caplog.messages if line.startswith("asking to lead fails")]
    assert line.endswith(f"TimeoutError: {database.dsn.where} did not answer within 0.3 s")
