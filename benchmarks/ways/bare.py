"""The bare thing, in a process of its own: what a job does, with no job system around it.

`python -m benchmarks.ways.bare NAME DSN NUMBER AT_ONCE` says as JSON what `Ran` holds. The first tenth is
warming up, as it is for a worker.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from operator import length_hint
from typing import Any

import psycopg
import uvloop
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from benchmarks.bench import Bench
from benchmarks.peers.effort import Effort
from benchmarks.ways.bodies import PAY, PAY_NAMED, PAYMENT, SESSION_SLOTS
from benchmarks.ways.program import ROOT, end
from benchmarks.ways.turns import Ran

Connection = psycopg.AsyncConnection[Any]
Act = Callable[[int], Awaitable[object]]
"""One job, by its number."""

_WARM_UP = 0.1

# What stands for the queue: small rows that go from one table to the next, as a job's do.
_TABLES = f"""
{PAYMENT};
create table waiting (number int primary key, kind text not null);
create table held (number int primary key, since timestamptz not null, kind text not null);
create table done (number int primary key, at timestamptz not null, kind text not null, outcome text);
"""
_WAIT = "insert into waiting select n, 'pay' from generate_series(1, %s) n"
_HOLD = "insert into held select n, now(), 'pay' from generate_series(1, %s) n"
_CLAIM = """
with picked as (select number from waiting order by number limit 1 for update skip locked),
     taken as (delete from waiting w using picked p where w.number = p.number returning w.number, w.kind)
insert into held (number, since, kind) select number, now(), kind from taken returning number
"""
_COMPLETE = """
with gone as (delete from held where number = {number} returning number, kind)
insert into done (number, at, kind, outcome) select number, now(), kind, 'succeeded' from gone
"""
_COMPLETE_PSYCOPG = _COMPLETE.format(number="%(number)s")
_COMPLETE_NAMED = _COMPLETE.format(number=":number")


@asynccontextmanager
async def transactions(dsn: str, jobs: int, at_once: int) -> AsyncIterator[Act]:
    """The insert and the completion as one transaction, over as many connections as run at once."""
    await _set_up(dsn, jobs, _HOLD)
    async with AsyncExitStack() as stack:
        free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        for _ in range(at_once):
            free.put_nowait(await stack.enter_async_context(await _connect(dsn)))

        async def act(number: int) -> None:
            connection = await free.get()
            try:
                await _pay(connection, number)
            finally:
                free.put_nowait(connection)

        yield act


@asynccontextmanager
async def claimed_transactions(dsn: str, jobs: int, at_once: int) -> AsyncIterator[Act]:  # noqa: ARG001  # one
    """One after the other, each claimed by a statement of its own, which is committed first."""
    await _set_up(dsn, jobs, _WAIT)
    async with await _connect(dsn) as connection:

        async def act(number: int) -> None:  # noqa: ARG001  # the claim says which
            row = await (await connection.execute(_CLAIM)).fetchone()
            assert row is not None, "nothing is left to claim"
            await _pay(connection, row[0])

        yield act


async def _pay(connection: Connection, number: int) -> None:
    async with connection.transaction():
        await connection.execute(PAY, {"number": number})
        await connection.execute(_COMPLETE_PSYCOPG, {"number": number})


@asynccontextmanager
async def sessions(dsn: str, jobs: int, at_once: int) -> AsyncIterator[Act]:  # noqa: ARG001  # the engine's pool
    """The same through SQLAlchemy, with the engine that the job has."""
    await _set_up(dsn, jobs, _HOLD)
    engine = create_async_engine(
        "postgresql+psycopg://", connect_args=conninfo_to_dict(dsn), pool_size=SESSION_SLOTS
    )

    async def act(number: int) -> None:
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(text(PAY_NAMED), {"number": number})
            await session.execute(text(_COMPLETE_NAMED), {"number": number})

    yield act
    await engine.dispose()


@asynccontextmanager
async def threads(dsn: str, jobs: int, at_once: int) -> AsyncIterator[Act]:  # noqa: ARG001  # as all
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(at_once) as pool:
        yield lambda number: loop.run_in_executor(pool, _nothing, number)


@asynccontextmanager
async def processes(dsn: str, jobs: int, at_once: int) -> AsyncIterator[Act]:  # noqa: ARG001  # as all
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(at_once) as pool:
        yield lambda number: loop.run_in_executor(pool, _nothing, number)


def _nothing(number: int) -> None:
    """Of the same signature as the job."""


ACTS = {act.__name__: act for act in (transactions, claimed_transactions, sessions, threads, processes)}
_CONNECTED = ("transactions", "claimed_transactions")
_IN_FLIGHT = {"processes": 100}
"""How many are awaited at once, where that is not as many as run: a pool of processes has a queue."""


async def _set_up(dsn: str, jobs: int, fill: str) -> None:
    async with await _connect(dsn) as connection:
        await connection.execute(_TABLES)
        await connection.execute(fill, [jobs])
        await connection.execute("analyze")


async def _connect(dsn: str) -> Connection:
    return await psycopg.AsyncConnection.connect(dsn, autocommit=True)


async def _run(name: str, dsn: str, jobs: int, at_once: int) -> Ran:
    numbers = iter(range(1, jobs + 1))
    async with ACTS[name](dsn, jobs, at_once) as act:

        async def one_after_the_other(until: int) -> None:
            for number in numbers:
                await act(number)
                if number >= until:
                    return

        async def all_at_once(until: int) -> None:
            in_flight = _IN_FLIGHT.get(name, at_once)
            await asyncio.gather(*(one_after_the_other(until) for _ in range(in_flight)))

        await all_at_once(int(jobs * _WARM_UP))
        left = length_hint(numbers)
        at_first, began = Effort.so_far(dsn, [os.getpid()]), time.monotonic()
        await all_at_once(jobs)
        took = time.monotonic() - began
        return Ran(left / took, Effort.so_far(dsn, [os.getpid()]).since(at_first, left))


def ran(bench: Bench, name: str, jobs: int, at_once: int) -> Ran:
    """Asked of a process of its own, which Ctrl-C does not reach: it ends in one way only."""
    with bench.database() as dsn:
        command = [sys.executable, "-m", "benchmarks.ways.bare", name, dsn, str(jobs), str(at_once)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, start_new_session=True) as process:
            try:
                answer, _ = process.communicate(timeout=300)
            finally:
                end(process)
    if process.returncode:
        raise ChildProcessError(f"{command!r} ended with {process.returncode}")
    rate, workers, server = json.loads(answer)
    return Ran(rate, Effort(workers, server), at_once if name in _CONNECTED else 0)


def main() -> None:
    name, dsn, jobs, at_once = sys.argv[1:]
    found = uvloop.run(_run(name, dsn, int(jobs), int(at_once)))
    print(json.dumps([found.rate, found.effort.workers, found.effort.server]))


if __name__ == "__main__":
    main()
