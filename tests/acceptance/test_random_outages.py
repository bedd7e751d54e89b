"""Outages that begin and end at random moments, made by what operators and failovers really do, while jobs of
every sort run: each of them succeeds, once, as soon as the database lets it.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from acceptance.books import Books
from acceptance.in_process_workers import working
from borrowed.caller_connections import parts
from holdfast import App, Context, Done, Flow, Machine, Next, Retry, Step
from holdfast.flows import suspension
from holdfast.worker import settler
from support.waiting import until

SECONDS = 2.5
PATIENT = Retry(max_attempts=1_000, backoff="50ms", on=KeyError)
"""`on` names what no outage raises: what `on` does not retry is the handler's own, and no outage is."""

TABLES = ("ready", "lease", "ledger", "checkpoint")


@dataclass(frozen=True)
class Role:
    """The role that a worker connects as, and an administrator that the outages do not touch."""

    name: str
    dsn: str
    admin: psycopg.Connection[Any]

    def do(self, text: str, **names: str) -> None:
        given = {key: sql.Identifier(value) for key, value in names.items()}
        self.admin.execute(sql.SQL(text).format(role=sql.Identifier(self.name), **given))

    def set(self, what: str) -> None:
        """For its next sessions."""
        self.do(f"alter role {{role}} {what}")

    def each_session(self, function: str) -> None:
        question = f"select {function}(pid) from pg_stat_activity where usename = %s"
        self.admin.execute(question.encode(), [self.name])


@pytest.fixture
def role(dsn: str) -> Iterator[Role]:
    name = f"outage_{conninfo_to_dict(dsn)['dbname']}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        role = Role(name, make_conninfo(dsn, user=name, password="secret"), admin)
        role.do("create role {role} login password 'secret'")
        role.do("grant usage on schema holdfast, public to {role}")
        role.do("grant all on all tables in schema holdfast to {role}")
        role.do("grant all on all sequences in schema holdfast to {role}")
        yield role
        role.each_session("pg_terminate_backend")
        role.do("drop owned by {role}")
        role.do("drop role {role}")


@contextmanager
def set_for_sessions(role: Role, setting: str, value: str) -> Iterator[None]:
    """Sessions are ended so that the next ones have it, or are rid of it."""
    role.set(f"set {setting} = {value}")
    role.each_session("pg_terminate_backend")
    yield
    role.set(f"reset {setting}")
    role.each_session("pg_terminate_backend")


@contextmanager
def too_slow(role: Role) -> Iterator[None]:
    with set_for_sessions(role, "statement_timeout", "'1ms'"):
        yield


@contextmanager
def read_only(role: Role) -> Iterator[None]:
    """As after a failover. Sessions that are read-only stay open when it is over."""
    role.set("set default_transaction_read_only = on")
    role.each_session("pg_terminate_backend")
    yield
    role.set("reset default_transaction_read_only")


@contextmanager
def revoked(role: Role) -> Iterator[None]:
    for table in TABLES:
        role.do("revoke all on holdfast.{table} from {role}", table=table)
    yield
    for table in TABLES:
        role.do("grant all on holdfast.{table} to {role}", table=table)


@contextmanager
def no_connections(role: Role) -> Iterator[None]:
    role.set("connection limit 0")
    role.each_session("pg_terminate_backend")
    yield
    role.set("connection limit -1")


@contextmanager
def nothing(role: Role) -> Iterator[None]:
    yield


def cancel(role: Role) -> None:
    role.each_session("pg_cancel_backend")


def terminate(role: Role) -> None:
    role.each_session("pg_terminate_backend")


def leave(role: Role) -> None: ...


Outage = tuple[Callable[[Role], Any], Callable[[Role], None]]
"""What lasts from its beginning to its end, and what is done again and again meanwhile."""

OUTAGES: dict[str, Outage] = {
    "statement_timeout": (too_slow, leave),
    "read-only": (read_only, leave),
    "rights revoked": (revoked, leave),
    "connection limit": (no_connections, leave),
    "cancelled": (nothing, cancel),
    "terminated": (nothing, terminate),
}


async def trouble(role: Role, outage: Outage, chance: random.Random) -> None:
    """Outages of this kind, of random lengths after random pauses."""
    begin, again = outage
    until_when = monotonic() + SECONDS
    while monotonic() < until_when:
        await asyncio.sleep(chance.uniform(0, 0.3))
        with begin(role):
            over = monotonic() + chance.uniform(0.01, 0.6)
            while monotonic() < over:
                again(role)
                await asyncio.sleep(chance.uniform(0, 0.02))


@asynccontextmanager
async def an_engine(dsn: str) -> AsyncIterator[Any]:
    """Of SQLAlchemy on asyncpg. Its pool would keep sessions that are read-only, which is not our matter."""
    engine = create_async_engine(
        "postgresql+asyncpg://", connect_args=parts(dsn, dbname="database"), poolclass=sa.NullPool
    )
    yield engine
    await engine.dispose()


def written(job: int, run: int) -> str:
    return f"insert into effect (job, run) values ({job}, {run})"


@contextmanager
def handlers_own() -> Iterator[None]:
    """A statement of the handler's own may fail, too, which it has to know of: here `on` does."""
    try:
        yield
    except Exception as error:
        raise KeyError("a statement of the handler's own") from error


class Shop:
    """Jobs of every sort. `returned` holds the runs whose handler returned, for the worker to settle."""

    def __init__(self, app: App, engine: Any) -> None:
        self.returned: list[int] = []

        @app.job(retry=PATIENT)
        async def note(ctx: Context) -> int:
            self.returned.append(ctx.fencing_token)
            return 7

        @app.job(retry=PATIENT)
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                with handlers_own():
                    await conn.execute(written(ctx.job.id, ctx.fencing_token))

        @app.job(retry=PATIENT)
        def pay_in_a_thread(ctx: Context) -> None:
            with ctx.transaction() as conn, handlers_own():
                conn.execute(written(ctx.job.id, ctx.fencing_token))

        @app.job(retry=PATIENT)
        async def pay_by_session(ctx: Context) -> None:
            async with AsyncSession(engine) as session, ctx.transaction(session):
                with handlers_own():
                    await session.execute(sa.text(written(ctx.job.id, ctx.fencing_token)))

        @app.flow(retry=PATIENT)
        async def order(flow: Flow) -> int:
            first = await flow.step("first", lambda: 1)
            async with flow.transaction("book") as conn:
                if conn is not None:
                    with handlers_own():
                        await conn.execute(written(flow.job.id, flow.attempt).encode())
            return first + await flow.step("second", lambda: 2)

        @app.machine(retry=PATIENT)
        class Climb(Machine[int]):
            class Go(Step):
                number: int

                async def run(self) -> Next | Done[int]:
                    return Next(Climb.Go(self.number + 1)) if self.number < 3 else Done(self.number)

        self.paying = 4
        self.calls: list[Callable[[], Any]] = [
            note.call,
            lambda: Climb.call(Climb.Go(0)),
            pay.call,
            pay_in_a_thread.call,
            pay_by_session.call,
            order.call,
        ]


BAD_ENDS = """
select job, attempt, outcome::text, error from holdfast.ledger where is_final and outcome <> 'succeeded'
"""


@pytest.mark.machine  # takes its time
@pytest.mark.timeout(300)
@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
async def test_no_outage_ends_a_job_or_repeats_its_effects(
    dsn: str, books: Books, role: Role, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = int(os.environ.get("HOLDFAST_SEED") or random.randrange(1_000_000))
    print(f"HOLDFAST_SEED={seed}")  # noqa: T201  # shown when it fails
    chance = random.Random(seed)
    monkeypatch.setattr(settler, "_AGAIN_SECONDS", 0.3)
    monkeypatch.setattr(suspension, "_PAUSE", timedelta(milliseconds=50))
    role.do("grant all on effect to {role}")
    async with (
        an_engine(role.dsn) as engine,
        App(role.dsn) as app,
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as producer,
    ):
        shop = Shop(app, engine)
        async with working(app, lease=60, beat=0.4, poll=0.3):
            troubling = asyncio.create_task(trouble(role, outage, chance))
            ids: list[int] = []
            while not troubling.done():
                handles = await app.enqueue_many([call() for call in shop.calls], conn=producer)
                ids += [handle.id for handle in handles]
                await asyncio.sleep(chance.uniform(0, 0.15))
            await troubling
            await until(lambda: books.finished() >= len(ids), "all end after the outage", within=30)
    rounds = len(ids) // len(shop.calls)
    assert not books.run(BAD_ENDS)
    books.assert_balanced(len(ids))
    assert books.run("select count(*), count(distinct job) from effect") == [(rounds * shop.paying,) * 2]
    kept = "select count(*) from holdfast.ledger where run = any(%s) and outcome = 'succeeded'"
    assert books.value(kept, shop.returned) == len(shop.returned) == rounds
