"""A planner process: `python -m schedules.planner_process DSN` waits for a line, then fires what is due."""

import asyncio
import sys

from schedules.driven_planner import planner_on
from support.waiting import until


async def race(dsn: str) -> None:
    async with planner_on(dsn) as planner:
        print("ready", flush=True)  # noqa: T201  # read by the test
        await asyncio.to_thread(sys.stdin.readline)

        async def is_done() -> bool:
            did = await planner.once()
            return not did.is_more and (did.again_in is None or did.again_in > 1)

        await until(is_done, "nothing is due any more")


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1]))
