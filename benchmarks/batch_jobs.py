"""The same jobs one by one and in batches of a hundred: `holdfast worker -A benchmarks.batch_jobs:ones`, or
`…:batches`. An app for each, as a user has one or the other.
"""

from dataclasses import dataclass

from benchmarks.ways.bodies import PAY
from benchmarks.ways.counted import tally
from holdfast import App, Batch, BatchContext, Context

ones, batches = App(), App()


@dataclass
class Payment:
    number: int


HUNDRED = Batch(100, of=Payment, wait="200ms")


@ones.job(name="nothing")
async def nothing(number: int) -> None:  # noqa: ARG001  # a no-op
    tally.add()


@ones.job(name="pay")
async def pay(ctx: Context, number: int) -> None:
    tally.add()
    async with ctx.transaction() as conn:
        await conn.execute(PAY, {"number": number})


@batches.job(name="nothing", batch=HUNDRED)
async def nothing_together(payments: list[Payment]) -> None:
    for _ in payments:
        tally.add()


@batches.job(name="pay", batch=HUNDRED)
async def pay_together(ctx: BatchContext, payments: list[Payment]) -> None:
    for _ in payments:
        tally.add()
    async with ctx.transaction() as conn, conn.cursor() as cursor:
        await cursor.executemany(PAY, [{"number": payment.number} for payment in payments])
