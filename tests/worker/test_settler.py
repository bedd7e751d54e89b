"""A result that cannot be written harms neither its neighbours in the batch nor the worker."""

import asyncio

import pytest

from holdfast.domain.retention import Retention
from holdfast.domain.transition import SUCCESS
from holdfast.postgres.database import Database
from holdfast.worker import settler as settler_module
from holdfast.worker.claimed_run import ClaimedRun
from holdfast.worker.settler import RunEnding, Settler
from support.engine import SCHEMA, Engine
from worker.handler_runs import Run


def nothing() -> None: ...


async def test_an_ending_that_nothing_may_be_written_of_is_kept_and_written_later(
    dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A right that was taken away for a moment: the work was done, and is not to be done again."""
    monkeypatch.setattr(settler_module, "_AGAIN_SECONDS", 0.01)
    settled: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    with Engine.on(dsn, now=None) as engine:
        worker, job = engine.worker(), engine.enqueue()
        [row] = engine.claim(worker)
        like = Run.of(nothing)
        claimed = ClaimedRun(worker, "default", row, like.claimed.kind)
        ending = RunEnding.of(claimed, SUCCESS, like.context, lambda _, __, how: settled.set_result(how))
        async with Database(dsn) as database:
            settler = Settler(database, SCHEMA, Retention())
            settler.put(ending)
            engine.connection.execute("alter table holdfast.ledger rename to mislaid")
            await settler.once()
            assert "cannot be settled, again in" in caplog.text
            assert not settled.done()
            engine.connection.execute("alter table holdfast.mislaid rename to ledger")
            settling = asyncio.create_task(settler.run())
            assert await asyncio.wait_for(settled, 20) == "succeeded"
            settling.cancel()
        assert engine.state(job) == "succeeded"
