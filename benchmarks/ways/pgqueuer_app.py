"""As its quick start has it: `pgq run benchmarks.ways.pgqueuer_app:main`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job

from benchmarks.ways.counted import tally


@asynccontextmanager
async def main() -> AsyncIterator[PgQueuer]:
    queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect())

    @queuer.entrypoint("send_receipt")
    async def send_receipt(job: Job) -> None:  # noqa: ARG001  # a no-op
        tally.add()

    yield queuer
