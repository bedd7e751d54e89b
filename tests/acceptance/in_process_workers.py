"""Workers inside the test's own process, for what needs no process of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from acceptance.run_worker import options
from holdfast import App, Retry
from holdfast.job import Job
from holdfast.worker.worker import Worker

ONCE_MORE = Retry(max_attempts=2, backoff="0s")
NO_MORE = Retry(max_attempts=1)


@asynccontextmanager
async def working(app: App, **choices: Any) -> AsyncIterator[Worker]:
    async with app.worker(options=options(**choices)) as worker:
        yield worker


def ledger(app: App, books: Any, job: int) -> list[dict[str, Any]]:
    """What the ledger says of each run of a job, in order."""
    names = ("outcome", "attempt", "is_final", "flag", "error", "result")
    rows = books.run(
        f"select outcome::text, {', '.join(names[1:])} from holdfast.ledger where job = %s order by run", job
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def noting(app: App) -> Job[[], None]:
    """A job that does nothing, for an app that needs one."""

    @app.job
    async def note() -> None:
        pass

    return note
