"""Flows for workers in processes of their own; each says in a table that it has been somewhere."""

import asyncio
import os
from typing import Any

import psycopg

from holdfast import App, Flow, Retry

app = App()


async def note(conn: psycopg.AsyncConnection[Any], order: int, what: str) -> str:
    await conn.execute("insert into deed values (%s)", [f"{order}: {what}"])
    return what


async def look(order: int) -> int:
    """A step that takes its time: long enough to be interrupted, and it tells where it runs."""
    async with await psycopg.AsyncConnection.connect(os.environ["HOLDFAST_DSN"]) as conn:
        await conn.execute("insert into visit values (%s, %s)", [order, os.getpid()])
    await asyncio.sleep(0.05)
    return order


@app.job(retry=Retry(max_attempts=50, backoff="0s"))
async def ship(order: int) -> str:
    return f"shipped {order}"


@app.flow(retry=Retry(max_attempts=50, backoff="0s"))
async def fulfil(flow: Flow, order: int) -> str:
    await flow.transaction("reserve", note, order, "reserved")
    await flow.step("look", look, order)
    await flow.transaction("charge", note, order, "charged")
    await flow.sleep("rest", "20ms")
    await flow.wait_event(f"packed:{order}")
    shipped = await flow.call(ship, order)
    await flow.transaction("close", note, order, "closed")
    return shipped
