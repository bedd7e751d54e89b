"""One ending that cannot be written ends as failed, and neither its neighbours nor the worker with it."""

from typing import Any

from holdfast.domain.transition import SUCCESS, Complete
from holdfast.postgres.database import Database
from holdfast.storage.runs import Answer, Retention
from holdfast.worker.held import Held
from holdfast.worker.settler import Ending, Settler
from support.engine import SCHEMA, Engine
from worker.calling import Run


def nothing() -> None: ...


async def test_an_ending_that_cannot_even_be_sent_fails_alone(dsn: str) -> None:
    unsendable: Any = object()
    told: dict[int, str | None] = {}

    def tell(ending: Ending, answer: Answer, outcome: str | None) -> None:
        assert answer == "settled"
        told[ending.held.job] = outcome

    with Engine.on(dsn, now=None) as engine:
        worker = engine.worker()
        jobs = [engine.enqueue() for _ in range(3)]
        claimed = engine.claim(worker)
        like = Run.of(nothing)
        async with Database(dsn) as database:
            settler = Settler(database, SCHEMA, Retention())
            for row in claimed:
                held = Held(worker, "default", row, like.held.kind)
                transition = Complete(unsendable, None) if row.job == jobs[1] else SUCCESS
                settler.put(Ending(held, transition, None, like.context, None, tell))
            await settler.once()
        assert told == {jobs[0]: "succeeded", jobs[1]: "failed", jobs[2]: "succeeded"}
        [found] = [engine.find(job) for job in jobs if job == jobs[1]]
        assert found is not None
        assert "could not be stored" in str(found.error)
