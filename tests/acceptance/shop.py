"""A shop whose jobs leave traces: a line in the diary for every time that one runs, in a file that no fault
of the database touches, and an `effect` that `ctx.transaction()` commits with the job.
"""

import asyncio
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast import App, Batch, BatchContext, Context, Limit, Retry, RetryLater, exponential

SHORT = Retry(max_attempts=20, backoff=exponential("100ms", factor=1, jitter=0))

app = App()


def diary() -> Path:
    """The directory that the test has chosen."""
    return Path(os.environ["SHOP_DIARY"])


def note(ctx: Context, what: str = "run") -> None:
    """One write of one line is whole, even beside other writers."""
    line = {
        "what": what,
        "job": ctx.job.id,
        "run": ctx.fencing_token,
        "attempt": ctx.attempt,
        "pid": os.getpid(),
        "at": time.monotonic(),  # the same clock for all processes
    }
    with (diary() / "lines").open("a") as file:
        file.write(json.dumps(line) + "\n")


def is_open(gate: str) -> bool:
    return (diary() / f"gate-{gate}").exists()


async def opened(gate: str) -> None:
    """Until the test opens this gate."""
    async with asyncio.timeout(60):
        while not is_open(gate):  # noqa: ASYNC110  # the test is in another process
            await asyncio.sleep(0.02)


async def leave_effect(ctx: Context) -> None:
    async with ctx.transaction() as conn:
        await conn.execute("insert into effect (job, run) values (%s, %s)", (ctx.job.id, ctx.fencing_token))


@app.job(retry=SHORT)
async def pay(ctx: Context, number: int) -> None:
    """Takes a moment, then leaves its effect."""
    note(ctx)
    await asyncio.sleep(0.02)
    await leave_effect(ctx)


@dataclass
class Payment:
    number: int


@app.job(retry=SHORT, batch=Batch(20, of=Payment, wait="50ms"))
async def pay_together(ctx: BatchContext, payments: list[Payment]) -> None:
    """Takes a moment, then leaves the effects of all of them."""
    for run in ctx.runs:
        note(run)
    await asyncio.sleep(0.02)
    async with ctx.transaction() as conn:
        for run in ctx.runs:
            await conn.execute(
                "insert into effect (job, run) values (%s, %s)", (run.job.id, run.fencing_token)
            )


@app.job(retry=SHORT, limit=Limit(key="account", per_key=1))
async def charge(ctx: Context, account: str, number: int) -> None:
    """One at a time of each account, as its begin and its end in the diary show."""
    note(ctx, f"begins {account}")
    await asyncio.sleep(0.005)
    note(ctx, f"ends {account}")


@app.job(batch=Batch(2, of=Payment, wait="1h"))
def file_together(ctx: BatchContext, payments: list[Payment]) -> None:
    """Begins with two of them, and not before."""
    for run in ctx.runs:
        note(run, "filed")


@app.job(on_lost="fail")
async def pay_once(ctx: Context, number: int) -> None:
    """A job that must not start again after it has ended."""
    note(ctx)


@app.job(on_lost="fail")
def pay_once_in_a_thread(ctx: Context, number: int) -> None:
    note(ctx)


def blocked_at_first(ctx: Context) -> None:
    """A hook that blocks the event loop until the test opens its gate: the other runs wait behind it."""
    note(ctx, "held up")
    deadline = time.monotonic() + 60
    while not is_open("hook") and time.monotonic() < deadline:
        time.sleep(0.02)


@app.job(on_lost="fail", on_start=blocked_at_first)
async def pay_once_behind_a_hook(ctx: Context, number: int) -> None:
    note(ctx)
    await leave_effect(ctx)


@app.job(retry=Retry(max_attempts=1), on_dead=lambda ctx, _: note(ctx, "dead"))
async def hang_once_and_for_all(ctx: Context) -> None:
    """Runs until its worker ends."""
    note(ctx)
    await asyncio.Event().wait()


@app.job(retry=SHORT)
async def wait_then_pay(ctx: Context, gate: str) -> None:
    """Runs until the test opens its gate, then leaves its effect."""
    note(ctx)
    try:
        await opened(gate)
    except asyncio.CancelledError:
        note(ctx, "aborted")
        raise
    await leave_effect(ctx)


@app.job(retry=SHORT)
async def wait_then_return(ctx: Context, gate: str) -> int:
    """The same without a transaction: settled by the worker."""
    note(ctx)
    await opened(gate)
    return ctx.attempt


@app.job(retry=SHORT)
async def pay_slowly(ctx: Context, gate: str) -> None:
    """Writes first, and commits when the gate is open."""
    note(ctx)
    async with ctx.transaction() as conn:
        await conn.execute("insert into effect (job, run) values (%s, %s)", (ctx.job.id, ctx.fencing_token))
        note(ctx, "written")
        await opened(gate)


@app.job(retry=SHORT)
async def block(ctx: Context, seconds: float) -> str:
    """Does what no coroutine should: nothing else runs on this event loop meanwhile."""
    note(ctx)
    time.sleep(seconds)  # noqa: ASYNC251  # that is the point
    return "blocked"


@app.job(retry=SHORT)
async def block_later(ctx: Context, gate: str, seconds: float) -> None:
    note(ctx)
    await opened(gate)
    note(ctx, "blocking")
    time.sleep(seconds)  # noqa: ASYNC251  # that is the point


@app.job(retry=SHORT)
def ponder(ctx: Context, gate: str) -> str:
    """A plain function, in a thread that cannot be stopped."""
    note(ctx)
    deadline = time.monotonic() + 60
    while not is_open(gate) and time.monotonic() < deadline:
        time.sleep(0.02)
    return "pondered"


@app.job(retry=SHORT)
async def greet(name: str) -> str:
    return f"hello {name}"


@app.job(retry=SHORT)
async def wrap(gift: str, ribbon: str) -> str:
    return f"{gift} with {ribbon}"


@app.job(retry=SHORT)
async def retry_after(ctx: Context, delay: str) -> int:
    """Asks at its first attempt to be tried again after a delay."""
    note(ctx)
    if ctx.attempt == 1:
        raise RetryLater(delay)
    return ctx.attempt
