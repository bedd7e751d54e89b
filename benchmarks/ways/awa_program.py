"""As awa-pg's quick start has it: a program, since it has no command for workers of Python. Its
argument is the number of workers.
"""

import asyncio
import os
import sys
from typing import Any

import awa

from benchmarks.peers.peer import QUEUE, Receipt
from benchmarks.ways.counted import tally


async def main() -> None:
    client = awa.AsyncClient(os.environ["DATABASE_URL"])

    @client.task(Receipt, kind="send_receipt", queue=QUEUE)
    async def send_receipt(job: Any) -> None:  # noqa: ARG001  # a no-op
        tally.add()

    await client.start([(QUEUE, int(sys.argv[1]))])
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
