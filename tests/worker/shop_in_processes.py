"""Run by its path, as a user would: jobs of `__main__` in child processes of a worker beside the caller."""

import asyncio
import os
import re
from typing import Any

from holdfast import App, Call, Context, Retry

app = App()
once = Retry(max_attempts=1)


class NoStock(Exception):
    pass


@app.job(isolate="process")
async def add(left: int, right: int) -> int:
    await asyncio.sleep(0)
    return left + right


@app.job(isolate="process", timeout="2s", retry=once)
def hog() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


@app.job(isolate="process", retry=once)
def die() -> None:
    os._exit(3)


@app.job(isolate="process", retry=once, memory_limit=300_000_000)
def eat() -> int:
    return len(bytearray(400_000_000))


@app.job(isolate="process", retry=Retry(max_attempts=5, backoff="10ms", on=NoStock))
def restock(context: Context) -> int:
    tries: int = context.state.get("tries", 0) + 1
    context.state["tries"] = tries
    context.progress(tries / 3)
    if tries < 3:
        raise NoStock(tries)
    return tries


@app.job(isolate="process", retry=Retry(max_attempts=5, backoff="10ms", on=NoStock))
def lose_it() -> None:
    raise LookupError("it was here")


async def main() -> None:
    async with app, app.worker():
        calls: list[Call[Any]] = [
            add.call(1, 2),
            hog.call(),
            die.call(),
            eat.call(),
            restock.call(),
            lose_it.call(),
        ]
        handles = await app.enqueue_many(calls)
        await asyncio.gather(*(handle.result("60s") for handle in handles), return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
