"""One ending that cannot be written ends as failed, and neither its neighbours nor the worker with it."""

import asyncio
from typing import Any

import pytest

from holdfast.domain.transition import SUCCESS, CompleteJob
from holdfast.postgres.database import Database
from holdfast.storage.runs import Answer, Retention
from holdfast.worker import settler as settler_module
from holdfast.worker.claimed_run import ClaimedRun
from holdfast.worker.settler import RunEnding, Settler
from support.engine import SCHEMA, Engine
from worker.calling import Run


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


async def test_an_ending_that_cannot_even_be_sent_fails_alone(dsn: str) -> None:
    unsendable: Any = object()
    told: dict[int, str | None] = {}

    def tell(ending: RunEnding, answer: Answer, outcome: str | None) -> None:
        assert answer == "settled"
        told[ending.job] = outcome

    with Engine.on(dsn, now=None) as engine:
        worker = engine.worker()
        jobs = [engine.enqueue() for _ in range(3)]
        rows = engine.claim(worker)
        like = Run.of(nothing)
        async with Database(dsn) as database:
            settler = Settler(database, SCHEMA, Retention())
            for row in rows:
                claimed = ClaimedRun(worker, "default", row, like.claimed.kind)
                transition = CompleteJob(unsendable, None) if row.job == jobs[1] else SUCCESS
                settler.put(RunEnding.of(claimed, transition, like.context, tell))
            await settler.once()
        assert told == {jobs[0]: "succeeded", jobs[1]: "failed", jobs[2]: "succeeded"}
        [found] = [engine.find(job) for job in jobs if job == jobs[1]]
        assert found is not None
        assert "could not be stored" in str(found.error)
