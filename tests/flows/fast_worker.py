"""A worker in a hurry, and what it leaves: so that tests wait for conditions and not for time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from holdfast import App, WorkerOptions
from holdfast.storage.job_lookup import find
from holdfast.worker.lease_keeper import Beats
from holdfast.worker.worker import Worker
from support.waiting import until

PATIENCE = 30.0


def options(*, slots: int = 20) -> WorkerOptions:
    return WorkerOptions(
        queues={"default": slots},
        beats=Beats(timedelta(seconds=20), timedelta(seconds=0.5)),
        leader_lease=timedelta(seconds=2),
        poll=timedelta(seconds=1),
        grace=timedelta(seconds=10),
    )


@asynccontextmanager
async def working(app: App, *, slots: int = 20) -> AsyncIterator[Worker]:
    async with app.worker(options=options(slots=slots)) as worker:
        yield worker


async def state_of(app: App, job: int) -> str | None:
    found = await app.run(find(app.schema, job))
    return found[0].state if found else None


async def until_state(app: App, job: int, *states: str) -> None:
    async def is_so() -> bool:
        return await state_of(app, job) in states

    await until(is_so)
