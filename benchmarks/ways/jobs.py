"""Jobs that do something, as a user writes them: `holdfast worker -A benchmarks.ways.jobs:app`."""

import asyncio
import os
import time

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from benchmarks.ways.bodies import PAY, PAY_NAMED, SESSION_SLOTS, SLEEP_SECONDS, compute
from benchmarks.ways.counted import tally
from holdfast import App, Context

app = App()
engine = create_async_engine(
    "postgresql+psycopg://",
    connect_args=conninfo_to_dict(os.environ["HOLDFAST_DSN"]),
    pool_size=SESSION_SLOTS,
)


@app.job
async def pay(ctx: Context, number: int) -> None:
    tally.add()
    async with ctx.transaction() as conn:
        await conn.execute(PAY, {"number": number})


@app.job
async def book(ctx: Context, number: int) -> None:
    tally.add()
    async with AsyncSession(engine) as session, ctx.transaction(session):
        await session.execute(text(PAY_NAMED), {"number": number})


@app.job
def in_thread(number: int) -> None:  # noqa: ARG001  # a no-op
    tally.add()


@app.job
def sleep_in_thread(number: int) -> None:  # noqa: ARG001  # as all
    time.sleep(SLEEP_SECONDS)
    tally.add()


@app.job
async def sleep(number: int) -> None:  # noqa: ARG001  # as all
    await asyncio.sleep(SLEEP_SECONDS)
    tally.add()


@app.job(isolate="process")
def in_child(number: int) -> None:  # noqa: ARG001  # a no-op
    tally.add()


@app.job(isolate="process")
def compute_in_child(number: int) -> None:  # noqa: ARG001  # as all
    compute()
    tally.add()
