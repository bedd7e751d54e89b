"""A worker with its defaults, to be killed by `recovery`: `python -m benchmarks.recovery_worker DSN`."""

import asyncio
import sys

from holdfast import App

app = App(sys.argv[1] if __name__ == "__main__" else "postgresql://unused/")


@app.job
async def note() -> None: ...


if __name__ == "__main__":
    asyncio.run(app.run_worker())
