"""How many connections a worker has, what they must not wait for, and what it says when it loses them."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from connections.conftest import Observer
from holdfast import App, Context, Flow, Retry, WorkerOptions
from holdfast.errors import InvalidInput, JobEnded
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.telemetry.events import LeadershipChanged
from support.pgbouncer import pgbouncer
from support.server_faults import start_again, stop_now
from support.waiting import until

DOCS = Path(__file__).parents[2] / "docs"
OURS = """
select count(*), count(*) filter (where application_name = 'holdfast/handlers')
  from pg_stat_activity where datname = current_database() and application_name like 'holdfast/%'
"""
HANDLERS = 4
# Two hot ones, three calm ones, and one each to keep the lease, to notify and to listen.
OWN_CONNECTIONS = 8
ROUNDS = 8


class Counted:
    def __init__(self) -> None:
        self.most = self.most_of_handlers = 0


@asynccontextmanager
async def counting(dsn: str) -> AsyncIterator[Counted]:
    """The most connections of Holdfast's that were seen at once while the block ran."""
    counted, is_over = Counted(), asyncio.Event()

    async def look() -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            while not is_over.is_set():
                row = await (await connection.execute(OURS)).fetchone()
                assert row is not None
                counted.most = max(counted.most, row[0])
                counted.most_of_handlers = max(counted.most_of_handlers, row[1])
                await asyncio.sleep(0.002)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(look())
        try:
            yield counted
        finally:
            is_over.set()


def of_every_kind(dsn: str) -> App:
    """Handlers that use the worker's connections in every way there is."""
    app = App(dsn)

    @app.job
    async def awaited(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("select pg_sleep(0.02)")

    @app.job
    def plain(ctx: Context) -> None:
        with ctx.transaction() as conn:
            conn.execute("select pg_sleep(0.02)")

    @app.job
    async def wait() -> None:
        await asyncio.sleep(600)

    async def step() -> None: ...

    @app.flow
    async def trip(flow: Flow) -> None:
        for number in range(3):
            await flow.step(f"step {number}", step)
        await flow.sleep("rest", "10ms")
        async with flow.transaction("write") as conn:
            if conn is not None:
                await conn.execute("select 1")
        await flow.call(awaited)

    @app.schedule(every="1s")
    @app.job
    async def tick() -> None: ...

    return app


@pytest.mark.timeout(180)
async def test_a_worker_under_full_load_has_as_many_connections_as_the_pages_say(
    dsn: str, observer: Observer
) -> None:
    app = of_every_kind(f"{dsn} pool_max_conns={HANDLERS}")

    async def put(*kinds: str) -> list[int]:
        rows = await observer.connection.execute(
            "select holdfast.enqueue(k, '{}') from unnest(%s::text[]) as k", [list(kinds)]
        )
        return [row[0] for row in await rows.fetchall()]

    async with counting(dsn) as counted, app.worker(queues={"default": 60}):
        for _ in range(ROUNDS):
            waiting = await put(*["wait"] * 5)
            await put(*["awaited", "plain", "trip"] * 20)
            await asyncio.sleep(0.2)
            await app.jobs.cancel(waiting, conn=observer.connection)
        ended = (
            f"select count(*) = {ROUNDS * (5 + 4 * 20)} from holdfast.ledger"  # each trip has a child
            " join holdfast.job on job.id = ledger.job where is_final and job.kind <> 'tick'"
        )
        await until(lambda: observer.value(ended), "every job has ended", within=120)
    print(f"at most {counted.most}, of handlers {counted.most_of_handlers}")  # noqa: T201  # for a reader who measures
    assert counted.most_of_handlers == HANDLERS
    assert counted.most <= HANDLERS + OWN_CONNECTIONS


async def test_an_idle_worker_has_six_to_eight(dsn: str) -> None:
    app = App(dsn)

    @app.job
    async def nothing() -> None: ...

    async with counting(dsn) as counted, app.worker():
        await until(lambda: counted.most >= 6, lambda: f"six connections, not {counted.most}")
        await asyncio.sleep(1)  # a while in which no more may be opened
    assert 6 <= counted.most <= OWN_CONNECTIONS
    assert counted.most_of_handlers == 0


async def test_an_app_that_enqueues_has_two_to_four(dsn: str, observer: Observer) -> None:
    async with App(dsn) as app:

        @app.job
        async def nothing() -> None: ...

        async with counting(dsn) as counted:
            await asyncio.gather(*(nothing.enqueue() for _ in range(500)))
            await app.enqueue_many([nothing.call() for _ in range(5_000)])
    assert 2 <= counted.most <= 4


@pytest.mark.parametrize(
    "page",
    [
        "how-to/run-behind-pgbouncer.md",
        "how-to/run-a-worker.md",
        "how-to/deploy.md",
        "reference/connection-options.md",
    ],
)
def test_the_pages_say_how_many_connections_a_worker_has(page: str) -> None:
    found = re.findall(r"`pool_max_conns` \+ (\d+)", (DOCS / page).read_text("utf-8"))
    assert str(OWN_CONNECTIONS) in found


async def test_handlers_that_hold_every_connection_keep_nothing_else_waiting(
    dsn: str, observer: Observer
) -> None:
    app = App(f"{dsn} pool_max_conns=2 idle_in_transaction_timeout=5m")
    is_over = asyncio.Event()

    @app.job
    async def hold(ctx: Context) -> None:
        async with ctx.transaction():
            await is_over.wait()

    @app.job
    async def other() -> str:
        return "done"

    async with app, app.worker(options=WorkerOptions(queues={"default": 30}, leader_lease="1s")) as worker:
        await app.enqueue_many([hold.call() for _ in range(10)])
        await observer.until("select count(*) = 10 from holdfast.lease")
        handle = await other.using(delay="1s").enqueue()
        assert await handle.result("20s") == "done"
        assert await observer.value("select worker from holdfast.leader") == worker.id
        is_over.set()


@pytest.mark.timeout(90)
async def test_chores_that_wait_for_a_lock_do_not_cost_the_leadership(dsn: str, observer: Observer) -> None:
    changes: list[bool] = []

    def read(event: object) -> None:
        if isinstance(event, LeadershipChanged):
            changes.append(event.is_leader)

    app = App(dsn, readers=[read])

    @app.job
    async def nothing() -> None: ...

    stuck = (
        "select count(*) >= 3 from pg_stat_activity where datname = current_database()"
        " and application_name = 'holdfast/chores' and wait_event_type = 'Lock'"
    )
    renewed = "select expires_at > %s + interval '3s' from holdfast.leader"
    async with await psycopg.AsyncConnection.connect(dsn) as other:
        await other.execute(
            "lock holdfast.tally, holdfast.schedule, holdfast.wait, holdfast.wakeup, holdfast.notice"
        )
        async with app.worker(options=WorkerOptions(queues={"default": 1}, leader_lease="1s")):
            await observer.until(stuck)
            await observer.until(renewed, await observer.value("select now()"))
            assert await observer.value(stuck)
            assert changes == [True]
            await other.rollback()


async def test_a_plain_block_in_a_coroutine_is_refused_and_stops_no_event_loop(dsn: str) -> None:
    async with App(dsn) as app:

        @app.job
        async def mistaken(ctx: Context) -> None:
            with pytest.raises(InvalidInput, match="async with"), ctx.transaction():
                pass

        async with app.worker():
            await (await mistaken.enqueue()).result("20s")


async def test_threads_and_coroutines_prepare_statements_on_one_session(dsn: str) -> None:
    """Both are served by one connection in turns, and neither gives a name that the other has given."""
    app = App(f"{dsn} pool_max_conns=1")

    @app.job
    async def awaited(ctx: Context, number: int) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("select %s::int + 1", [number])

    @app.job
    def plain(ctx: Context, number: int) -> None:
        with ctx.transaction() as conn:
            conn.execute("select %s::int + 2", [number])
            with conn.transaction():
                conn.execute("select %s::int + 3", [number])

    async with app, app.worker():
        calls = [job.call(number) for number in range(15) for job in (awaited, plain)]
        for handle in await app.enqueue_many(calls):
            await handle.result("60s")


async def test_a_thread_whose_connection_is_cut_is_told_and_the_next_gets_another(
    dsn: str, observer: Observer
) -> None:
    app = App(f"{dsn} pool_max_conns=1")

    @app.job(retry=Retry(max_attempts=1))
    def cut(ctx: Context) -> None:
        with ctx.transaction() as conn:
            conn.execute("select pg_terminate_backend(pg_backend_pid())")

    @app.job
    def fine(ctx: Context) -> None:
        with ctx.transaction() as conn:
            conn.execute("select 1")

    async with app, app.worker():
        with pytest.raises(JobEnded):
            await (await cut.enqueue()).result("30s")
        await (await fine.enqueue()).result("30s")


@pytest.mark.machine
@pytest.mark.timeout(180)
async def test_an_outage_behind_a_pooler_is_two_lines_for_a_worker_and_its_app(
    private_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        pgbouncer(private_server.tcp_dsn, "transaction") as front,
        caplog.at_level(logging.INFO, "holdfast.postgres"),
    ):

        def said() -> list[str]:
            texts = [each.getMessage() for each in caplog.records if each.name == "holdfast.postgres"]
            return [text for text in texts if "reconnecting" in text or "is back after" in text]

        app = App(front)
        await asyncio.to_thread(App(private_server.tcp_dsn).migrate_sync)

        @app.job
        async def note(ctx: Context) -> None:
            async with ctx.transaction():
                pass

        options = WorkerOptions(queues={"default": 10}, poll="300ms")
        async with app, app.worker(options=options):
            await (await note.enqueue()).result("20s")
            await asyncio.to_thread(stop_now, private_server)
            try:
                await until(lambda: bool(said()))
                await asyncio.sleep(6)  # for as long as an outage lasts
            finally:
                await asyncio.to_thread(start_again, private_server)
            await until(lambda: len(said()) >= 2, "the pool says that the database is back", within=60)
            async with asyncio.timeout(60):
                await (await note.enqueue()).result("60s")
        # For 15 s after a failed login pgbouncer refuses others without trying: a line of its own making.
        lines = [line for line in said() if "server_login_retry" not in line]
        assert ["lost, reconnecting" in line for line in lines[:2]] == [True, False], "\n".join(said())
        assert not any("lost, reconnecting" in line for line in lines[2:]), "\n".join(said())
