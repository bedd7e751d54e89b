"""One process of one system: `python -m benchmarks.peers.child ACT SYSTEM DSN …`, started by `crew`.

It says "ready" when everything is imported, begins when told to, says what it found as JSON, and ends.
Logging is left at WARNING for everybody, and everybody runs on uvloop.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvloop
from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers.peer import Handle, Peer, Producer, Receipt
from benchmarks.peers.systems import SYSTEMS
from benchmarks.peers.tally import Tally

Act = Callable[[Peer, str, list[str]], Coroutine[Any, Any, object]]


async def prepare(peer: Peer, dsn: str, rest: list[str]) -> object:  # noqa: ARG001  # as all acts
    await peer.prepare(dsn)
    return peer.unfinished


async def work(peer: Peer, dsn: str, rest: list[str]) -> object:
    """Rest: concurrency, path of the tally, index in it, and whether jobs are to `count` or to `hold`."""
    concurrency, path, index, mode = int(rest[0]), Path(rest[1]), int(rest[2]), rest[3]
    latencies: list[int] = []
    with Tally.at(path, index=index) as tally:
        async with peer.working(dsn, concurrency, _handler(tally, latencies, mode)):
            say("working")
            await _until_told()
    return latencies


def _handler(tally: Tally, latencies: list[int], mode: str) -> Handle:
    async def count(sent: int) -> None:
        if sent:
            latencies.append(time.monotonic_ns() - sent)
        tally.add()

    async def hold(sent: int) -> None:  # noqa: ARG001  # as `count`
        tally.add()
        with suppress(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()

    return {"count": count, "hold": hold}[mode]


async def bulk(peer: Peer, dsn: str, rest: list[str]) -> object:
    """Rest: how many jobs. Answers the seconds that they took."""
    receipts = [Receipt(0, number) for number in range(int(rest[0]))]
    async with peer.producing(dsn, 1) as producer:
        await producer.one(Receipt(0))
        return await _seconds(producer.many(receipts))


async def single(peer: Peer, dsn: str, rest: list[str]) -> object:
    """Rest: how many producers at once, for how many seconds. Answers jobs per second."""
    producers, lasting = int(rest[0]), float(rest[1])
    async with peer.producing(dsn, producers) as producer:
        await _enqueue_for(producer, producers, lasting / 4)
        return await _enqueue_for(producer, producers, lasting)


async def _enqueue_for(producer: Producer, producers: int, lasting: float) -> float:
    done = 0
    began = time.monotonic()

    async def one_by_one() -> None:
        nonlocal done
        while time.monotonic() - began < lasting:
            await producer.one(Receipt(0))
            done += 1

    await asyncio.gather(*(one_by_one() for _ in range(producers)))
    return done / (time.monotonic() - began)


async def trickle(peer: Peer, dsn: str, rest: list[str]) -> object:
    """Rest: how many jobs, how many in a second. Sent by the clock, however long each of them takes."""
    number, rate = int(rest[0]), float(rest[1])
    async with peer.producing(dsn, 4) as producer, asyncio.TaskGroup() as group:
        began = time.monotonic()
        for each in range(number):
            await asyncio.sleep(began + each / rate - time.monotonic())
            group.create_task(producer.one(Receipt(time.monotonic_ns())))
    return number


async def flood(peer: Peer, dsn: str, rest: list[str]) -> object:
    """Rest: path of the tally, how many jobs may wait, for how many seconds. Keeps a worker supplied."""
    path, waiting, lasting = Path(rest[0]), int(rest[1]), float(rest[2])
    chunk = [Receipt(0, number) for number in range(1_000)]
    sent = 0
    ends = time.monotonic() + lasting
    with Tally.at(path) as tally:
        async with peer.producing(dsn, 1) as producer:
            while time.monotonic() < ends:
                if sent - tally.total < waiting:
                    await producer.many(chunk)
                    sent += len(chunk)
                else:
                    await asyncio.sleep(0.01)
    return sent


async def pace(peer: Peer, dsn: str, rest: list[str]) -> object:
    """Rest: how many jobs in a second, for how many seconds. Sent by the clock, fifty times a second."""
    rate, lasting = float(rest[0]), float(rest[1])
    chunk = [Receipt(0, number) for number in range(max(1, round(rate / 50)))]
    async with peer.producing(dsn, 1) as producer:
        began = time.monotonic()
        for turn in range(int(lasting * rate / len(chunk))):
            await asyncio.sleep(began + turn * len(chunk) / rate - time.monotonic())
            await producer.many(chunk)
    return lasting


ACTS: dict[str, Act] = {act.__name__: act for act in (prepare, work, bulk, single, trickle, flood, pace)}


async def _seconds(doing: Awaitable[object]) -> float:
    began = time.perf_counter()
    await doing
    return time.perf_counter() - began


async def _until_told() -> None:
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    act, name, dsn, *rest = sys.argv[1:]
    peer = SYSTEMS[name]()
    say("ready")
    sys.stdin.readline()
    say(uvloop.run(ACTS[act](peer, as_url(dsn), rest)))


def as_url(dsn: str) -> str:
    """The one form that every driver reads."""
    parts = conninfo_to_dict(dsn)
    host = quote(str(parts["host"]), safe="")
    return f"postgresql://{parts['user']}@{host}:{parts['port']}/{parts['dbname']}"


if __name__ == "__main__":
    main()
