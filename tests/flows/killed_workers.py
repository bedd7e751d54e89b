"""A worker that dies after the n-th thing it wrote, as a kill would have it: what was written stays, nothing
follows, and no process is told. The next one finds what it left.
"""

import asyncio
import gc
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from flows.fast_worker import PATIENCE, options
from holdfast import App, Job
from holdfast.postgres.pool import Pool
from holdfast.storage.job_lookup import find

_NAME = re.compile(rb"/\* holdfast\.(\w+) \*/")
_send = Pool.send

# All by which a worker or a leader changes anything about jobs, and whether it did.
WRITES: dict[str, Callable[[list[Any]], bool]] = {
    "claim": lambda rows: rows[0][2] is not None,
    "promote": lambda rows: rows[0][0] > 0,
    "flow_time_out": lambda rows: rows[0][0] > 0,
    "group_count": lambda rows: rows[0][0] > 0,
    **dict.fromkeys(
        (
            "flow_checkpoint",
            "flow_call",
            "flow_adopt",
            "flow_wait",
            "flow_wake",
            "machine_next",
            "settle",
            "complete",
            "cancel",
            "group_close",
        ),
        bool,
    ),
}


class Kill:
    """After the n-th write; the commit of several statements is one, too. `written` has their names."""

    def __init__(self, after: int | None) -> None:
        self.after = after
        self.written: list[str] = []
        self.killed = asyncio.Event()
        self.wrote = asyncio.Event()
        self._dirty: set[int] = set()

    async def send(self, pool: Pool, connection: Any, text: bytes, params: Any = None) -> Any:
        if self.killed.is_set():
            raise psycopg.OperationalError("killed")
        rows = await _send(pool, connection, text, params)
        name = found[1].decode() if (found := _NAME.match(text)) else text.decode()
        if self._is_write(name, rows, connection):
            self.written.append(name)
            self.wrote.set()
            if len(self.written) == self.after:
                self.killed.set()
                await asyncio.Event().wait()
        return rows

    def _is_write(self, name: str, rows: list[Any], connection: Any) -> bool:
        place = id(connection)
        if name == "commit":
            is_users = "handlers" in connection.info.get_parameters().get("fallback_application_name", "")
            is_dirty = place in self._dirty
            self._dirty.discard(place)
            return is_users or is_dirty
        is_write = name in WRITES and WRITES[name](rows)
        if is_write:
            self._dirty.add(place)
        return is_write


@asynccontextmanager
async def worker_until_killed(app: App, kill: Kill) -> AsyncIterator[None]:
    """A worker that ends as by kill -9 when it is its time, or when the block ends."""
    own = await app._connections.opened()
    spared = (own.database._pool, own.hints._pool)
    with pytest.MonkeyPatch.context() as patch:

        async def send(pool: Pool, connection: Any, text: bytes, params: Any = None) -> Any:
            return await (_send if pool in spared else kill.send)(pool, connection, text, params)

        patch.setattr(Pool, "send", send)
        others = asyncio.all_tasks()
        worker = await app._worker_maker.make(None, None, None, options())
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            kill.killed.set()
            # All that it has begun, and at once: nothing of a process that was killed takes its leave.
            while left := asyncio.all_tasks() - others:
                for task in left:
                    task.cancel()
                await asyncio.wait(left, timeout=0.5)
            assert running.done()
            # A connection being made is closed with its object: the server would wait a minute for it.
            del left
            gc.collect()


async def lives(
    dsn: str, define: Callable[[App], Job[[], Any]], deaths: list[int], *, events: tuple[str, ...] = ()
) -> tuple[Any, list[Kill]]:
    """Enqueue a flow and let one worker after the other run it, each until it is killed; the last one lives.
    Gives the flow's result.
    """
    kills: list[Kill] = []
    async with App(dsn) as app:
        flow = define(app)
        for event in events:
            await app.emit(event, {"event": event})
        handle = await flow.enqueue()
        for death in [*deaths, None]:
            kill = Kill(death)
            kills.append(kill)
            try:
                async with worker_until_killed(app, kill):
                    if await _is_over(app, handle.id, kill):
                        return await handle.result(timeout="1s"), kills
            finally:
                await forget_the_dead(dsn)
    raise AssertionError("the last worker ended too early")


async def _is_over(app: App, job: int, kill: Kill) -> bool:
    """Whether the job has ended, and not the worker. Asked after each write: no job ends without one."""
    async with asyncio.timeout(PATIENCE):
        while True:
            kill.wrote.clear()
            [found] = await app.run(find(app.schema, job))
            if found.state in ("succeeded", "failed", "cancelled", "expired"):
                return True
            if kill.killed.is_set():
                return False
            await kill.wrote.wait()


async def forget_the_dead(dsn: str) -> None:
    """As if their leases had run out and their connections had closed, without the wait."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name ~ '^holdfast/(?!app)'"
        )
        await connection.execute("update holdfast.worker set expires_at = now() - interval '1 second'")
        await connection.execute("delete from holdfast.leader")
