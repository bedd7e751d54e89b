"""The app of a fleet whose workers are killed: `python -m acceptance.run_worker groups.fleet_app '{…}'`."""

import asyncio
from datetime import timedelta

from holdfast import App, Context, Retry

app = App()
PATIENT = Retry(max_attempts=1_000, backoff=timedelta(milliseconds=20))


@app.job(retry=PATIENT)
async def member(number: int) -> int:
    await asyncio.sleep(0.3)
    return number


@app.job(retry=Retry(max_attempts=1))
async def fragile(number: int) -> int:
    raise ArithmeticError(f"{number} breaks at once")


@app.job(retry=PATIENT)
async def report(ctx: Context) -> dict[str, int]:
    assert ctx.group is not None
    return {"members": ctx.group.counts.members, "ended": ctx.group.counts.ended}
