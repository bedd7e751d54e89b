"""A shop whose jobs have limits, and note when each run begins and ends, outside the database."""

import asyncio

from acceptance.shop import SHORT, note
from holdfast import App, Context, Limit, Rate

app = App()
carrier = app.limit("carrier", per_key=2, total=3)
smtp = app.limit("smtp", rate=Rate(25, per="1s", burst=4))


async def _noted(ctx: Context, seconds: float) -> None:
    note(ctx, "begin")
    await asyncio.sleep(seconds)
    note(ctx, "end")


@app.job(retry=SHORT, limit=Limit(key="account", per_key=1))
async def charge(ctx: Context, account: str) -> None:
    """One of an account at a time."""
    await _noted(ctx, 0.15)


@app.job(retry=SHORT, limit=carrier.by("to"))
async def ship(ctx: Context, to: str) -> None:
    """Two to a place at a time, and three in all."""
    await _noted(ctx, 0.15)


@app.job(retry=SHORT, limit=smtp)
async def mail(ctx: Context) -> None:
    """As often as the rate allows."""
    await _noted(ctx, 0)
