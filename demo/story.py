"""Plays the story: a server, workers, customers, and the person who watches."""

import asyncio
import os
import random

import psycopg
from rich.console import Console
from rich.text import Text

from demo.database import DIRECTORY, new_database
from demo.orders import Shop
from demo.picture import take_picture
from demo.screen import FRAMES_A_SECOND, Stage, screen
from demo.shop import app
from demo.signals import INTERRUPTED, STOP_SIGNALS
from demo.summary import print_summary
from demo.verdict import Verdict, judge
from demo.workers import PROCESSES, Workers, WorkersDied, workers
from holdfast.errors import HoldfastError

ORDERS = 30
PAUSE_SECONDS = 0.3
PATIENCE_SECONDS = 60.0


def play(*, keep: bool) -> int:
    """The exit code. Raises KeyboardInterrupt while there is nothing to sum up yet."""
    console = Console()
    try:
        return _play(console, keep=keep)
    except (HoldfastError, WorkersDied, psycopg.Error) as error:
        console.print(Text(f"the demo could not go on: {error}"))
        return 1


def _play(console: Console, *, keep: bool) -> int:
    console.print(Text("Starting a private Postgres and two workers", "dim"))
    with new_database() as dsn:
        os.environ["HOLDFAST_DSN"] = dsn
        shop = Shop(dsn)
        asyncio.run(shop.open())
        with workers(dsn, DIRECTORY / "workers.log") as crew:
            was_stopped = asyncio.run(_watch(console, shop, crew, dsn, keep=keep))
        verdict = asyncio.run(_judge(dsn, shop))
    print_summary(console, verdict)
    console.print(Text(f"\nThe workers' log is in {crew.log}", "dim"))
    if was_stopped and not keep:
        return INTERRUPTED
    return 0 if verdict.is_good and (was_stopped or not verdict.waiting) else 1


async def _watch(console: Console, shop: Shop, crew: Workers, dsn: str, *, keep: bool) -> bool:
    """Until everything has ended. Returns whether the viewer stopped it earlier."""
    stop = asyncio.Event()
    for number in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    footer = f'Ctrl-C ends it; look for yourself:\npsql "{dsn}"' if keep else "Ctrl-C ends it"
    stage = Stage(shop.books, ORDERS, footer)
    async with app, await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        opened = asyncio.Event()
        selling = asyncio.create_task(_sell(shop, opened, keep=keep))
        try:
            with screen(console, stage) as shown:
                if keep and not console.is_terminal:
                    console.print(footer, highlight=False, soft_wrap=True)
                patience = PATIENCE_SECONDS * FRAMES_A_SECOND
                while not stop.is_set() and patience > 0:
                    crew.check()
                    picture = await take_picture(conn)
                    shown.show(picture)
                    if picture.workers == PROCESSES and not opened.is_set():
                        opened.set()
                        stage.is_open = True
                    if selling.done():
                        await selling
                        patience -= 1
                        if picture.active == 0:
                            break
                    await asyncio.sleep(1 / FRAMES_A_SECOND)
                shown.end()
        finally:
            selling.cancel()
            await asyncio.gather(selling, return_exceptions=True)
    return stop.is_set()


async def _sell(shop: Shop, opened: asyncio.Event, *, keep: bool) -> None:
    """Once the workers are there: the story is the same on a slow machine."""
    await opened.wait()
    for _ in range(ORDERS):
        await shop.take_order()
        await asyncio.sleep(PAUSE_SECONDS)
    await shop.restock()
    while keep:
        await shop.take_order()
        await asyncio.sleep(random.uniform(0.5, 3))  # noqa: S311  # customers


async def _judge(dsn: str, shop: Shop) -> Verdict:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        return await judge(conn, shop.books)
