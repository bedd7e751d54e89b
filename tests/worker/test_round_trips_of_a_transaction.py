"""How often `ctx.transaction()` goes to the server and back beside the handler's own statements."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from borrowed.caller_connections import parts
from holdfast import Context
from holdfast.codec.signature import Signature
from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.errors import LeaseLost
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.thread_transactions import ThreadTransactions
from holdfast.worker.claimed_run import ClaimedRun
from holdfast.worker.completion import Completion
from holdfast.worker.job_kind import Kind
from support.engine import SCHEMA, Engine
from support.proxy import Proxy

ONE = PoolOptions(pool_min_conns=1, pool_max_conns=1)
WRITE = "insert into paid values (1)"


async def pay(ctx: Context) -> None:
    """Only its name and shape matter: the tests do its work."""


KIND = Kind(Policy("mail"), pay, Signature.of(pay, context=Context), style="coroutine")


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with Engine.on(dsn, now=None) as engine:
        engine.connection.execute("create table paid (n int)")
        yield engine


def completion(engine: Engine, worker: int, database: Database, own: object = None) -> Completion:
    engine.enqueue()
    [row] = engine.claim(worker)
    return Completion(
        ClaimedRun(worker, "default", row, KIND),
        own,
        database=database,
        blocking=ThreadTransactions(database),
        schema=SCHEMA,
        retention=Retention(),
    )


async def write_without_a_lease(engine: Engine, block: Completion) -> None:
    async with block as connection:
        await connection.execute(WRITE)
        engine.connection.execute("delete from holdfast.lease")


def succeeded(engine: Engine) -> int:
    row = engine.connection.execute("select count(*) from holdfast.ledger join paid on true").fetchone()
    assert row is not None
    return int(row[0])


async def test_a_connection_of_ours_makes_two(dsn: str, engine: Engine) -> None:
    worker = engine.worker()
    async with Proxy.before(dsn) as proxy, Database(proxy.dsn(dsn), ONE) as database:
        async with completion(engine, worker, database):
            """The first one prepares."""
        before = proxy.since.requests_passed
        async with completion(engine, worker, database) as connection:
            await connection.execute(WRITE)
        assert proxy.since.requests_passed - before == 1 + 2
    assert succeeded(engine) == 2


async def test_a_run_that_was_taken_away_costs_one_more_to_roll_back(dsn: str, engine: Engine) -> None:
    worker = engine.worker()
    async with Proxy.before(dsn) as proxy, Database(proxy.dsn(dsn), ONE) as database:
        block = completion(engine, worker, database)
        before = proxy.since.requests_passed
        with pytest.raises(LeaseLost):
            await write_without_a_lease(engine, block)
        assert proxy.since.requests_passed - before == 1 + 2 + 1
    assert succeeded(engine) == 0


async def test_a_session_of_sqlalchemy_makes_three_beside_its_begin_and_commit(
    dsn: str, engine: Engine
) -> None:
    worker = engine.worker()
    async with Proxy.before(dsn) as proxy, Database(dsn, ONE) as database:
        own = create_async_engine("postgresql+psycopg://", connect_args=parts(proxy.dsn(dsn)))
        async with AsyncSession(own) as session:
            await session.execute(sa.text("select 1"))  # SQLAlchemy asks some things of a new connection
        before = proxy.since.requests_passed
        async with AsyncSession(own) as session, completion(engine, worker, database, session):
            await session.execute(sa.text(WRITE))
        assert proxy.since.requests_passed - before == 1 + 3 + 2
        await own.dispose()
    assert succeeded(engine) == 1
