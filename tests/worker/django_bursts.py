"""Run by test_django_connections.py in a process of its own: bursts of ORM jobs with connections that Django
keeps for ever, and job threads that end between them. Without the garbage collector, which closes some of
what was left open, some time.
"""

import asyncio
import gc
import sys
import threading
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg

from holdfast import App
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.schedules.scopes import ask_source
from holdfast.worker import caller_wiring
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.options import WorkerOptions

AT_ONCE = 6


def main(directory: str) -> None:
    from worker.django_shop import configure, migrate

    gc.disable()
    with EmbeddedServer.start(directory, tcp=True) as server:
        configure(server.tcp_dsn, None)
        migrate(server.tcp_dsn)
        asyncio.run(trial(server.tcp_dsn))


async def trial(dsn: str) -> None:
    from django.db import connection

    from support.waiting import until

    app = App(dsn)
    together = threading.Barrier(AT_ONCE)
    seen: list[int] = []

    def opened() -> int:
        with psycopg.connect(dsn) as observer:
            asked = "select count(*) from pg_stat_activity where application_name = 'django shop'"
            [(count,)] = observer.execute(asked).fetchall()
            return int(count)

    def ask() -> int:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
            return int(cursor.fetchone()[0])

    @app.job
    def meet() -> None:
        ask()
        together.wait(60)
        seen.append(opened())
        together.wait(60)

    async def burst() -> None:
        seen.clear()
        for job in [await meet.enqueue() for _ in range(AT_ONCE)]:
            await job.result(timeout="60s")
        assert set(seen) == {AT_ONCE}, seen

    async def none_is_left(after: str) -> None:
        await until(lambda: not opened(), lambda: f"{opened()} connections are open after {after}", within=10)

    options = WorkerOptions(queues={"default": AT_ONCE})
    async with app:
        with idle_threads_end_after(0.2):
            async with app.worker(options=options):
                for _ in range(3):
                    await burst()
                    await none_is_left("the threads had no work")
        with idle_threads_end_after(600):
            async with app.worker(options=options):
                await burst()
                assert opened() == AT_ONCE, "they are kept for the next job"
        await none_is_left("the worker's end")
    database: Any = None  # a function is asked without one
    assert await ask_source(lambda: [str(ask())], database) == ["1"]
    await none_is_left("a schedule's scopes were read")


def idle_threads_end_after(seconds: float) -> AbstractContextManager[object]:
    """Patch the threads of workers that start inside the block."""
    return patch.object(caller_wiring, "JobThreads", partial(JobThreads, idle=seconds))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(sys.argv[1])
    print("fine")  # noqa: T201  # for the test
