"""Workers resume by themselves after Postgres restarts, ends their sessions or is away."""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from acceptance.books import Books
from acceptance.workers import WorkerProcess, Workers
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged
from support.server_faults import restart, start_again, stop_now
from support.waiting import until

pytestmark = pytest.mark.machine  # workers in processes of their own


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A private server that may be stopped."""
    directory: Path = tmp_path_factory.mktemp("server")
    with EmbeddedServer.start(directory, tcp=True) as running:
        yield running


@pytest.fixture
def dsn(own_server: EmbeddedServer, request: pytest.FixtureRequest) -> str:
    """A fresh, migrated database there."""
    name = sql.Identifier(request.node.name[:60])
    if not own_server.is_running():
        start_again(own_server)  # another test failed before it did
    with psycopg.connect(make_conninfo(own_server.tcp_dsn, dbname="postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(name))
    dsn = make_conninfo(own_server.tcp_dsn, dbname=request.node.name[:60])
    with psycopg.connect(dsn) as connection:
        migrate(connection, Schema(), packaged())
    return dsn


async def wake_ups_are_back(worker: WorkerProcess) -> None:
    """Hooks run a little later than jobs, and never in a worker that was told to stop."""
    await until(lambda: bool(worker.lines("WARNING", "wake-ups are back")), "wake-ups are back")


def assert_said_once(worker: WorkerProcess) -> None:
    """One line when the database went away, one when it came back; the same for wake-ups."""
    for lost, back in (
        ("lost, reconnecting", "is back after"),
        ("wake-ups are missing", "wake-ups are back"),
    ):
        assert len(worker.lines("WARNING", lost)) == 1, "\n".join(worker.lines("holdfast.postgres"))
        assert len(worker.lines("WARNING", back)) == 1, "\n".join(worker.lines("holdfast.postgres"))


@pytest.mark.requirement("S2.35", "S2.43")
async def test_a_crash_of_the_server_in_the_middle_of_many_jobs(
    own_server: EmbeddedServer, shop: Any, books: Books, workers: Workers
) -> None:
    worker = await workers.start(lease=20, beat=1)
    await shop.app.enqueue_many([shop.pay.call(number) for number in range(400)])
    await until(lambda: books.executions() >= 100, "it is in the middle of it")
    restart(own_server, "immediate")
    await books.all_finished(400)
    await shop.pay.enqueue(1)
    await books.all_finished(401)
    books.assert_balanced(401)
    books.assert_effects_once(401)
    await wake_ups_are_back(worker)
    await worker.stop()
    assert_said_once(worker)


@pytest.mark.requirement("S2.35", "S2.43")
async def test_every_session_ended_in_the_middle_of_many_jobs(
    shop: Any, books: Books, workers: Workers
) -> None:
    worker = await workers.start(lease=20, beat=1)
    await shop.app.enqueue_many([shop.pay.call(number) for number in range(400)])
    for _ in range(2):
        before = books.executions()
        await until(lambda: books.executions() >= before + 100, "it is in the middle of it")  # noqa: B023  # waits
        books.run(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'holdfast/%'"
        )
    await books.all_finished(400)
    books.assert_balanced(400)
    books.assert_effects_once(400)
    await worker.stop()


@pytest.mark.requirement("S2.43", "S3.4")
async def test_a_server_that_is_away_for_five_seconds(
    own_server: EmbeddedServer, shop: Any, books: Books, workers: Workers
) -> None:
    worker = await workers.start(lease=20, beat=1)
    running = await shop.wait_then_pay.enqueue("go")
    await until(lambda: books.executions() == 1, "it runs")
    stop_now(own_server)
    books.open_gate("go")
    stopped_at = monotonic()
    await until(lambda: worker.lines("lost, reconnecting"), "it has noticed")
    await until(lambda: monotonic() > stopped_at + 5, "five seconds have passed")
    start_again(own_server)
    took = await books.all_finished(1, within=10)
    await shop.pay.enqueue(1)
    await books.all_finished(2)
    print(f"resumed {took:.1f} s after the server")  # noqa: T201  # for a reader who measures
    assert set(books.outcomes(running.id)) <= {"retried", "succeeded"}
    books.assert_balanced(2)
    books.assert_effects_once(2)
    await wake_ups_are_back(worker)
    await worker.stop()
    assert_said_once(worker)


@pytest.mark.requirement("S1.28", "S3.4")
async def test_a_server_that_is_away_for_longer_than_the_lease(
    own_server: EmbeddedServer, shop: Any, books: Books, workers: Workers
) -> None:
    worker = await workers.start(lease=2)
    held = await shop.wait_then_return.enqueue("go")
    await until(lambda: books.executions() == 1, "it runs")
    stop_now(own_server)
    await until(lambda: worker.lines("worker lost its lease", "aborted=1"), "it aborts what it cannot keep")
    start_again(own_server)
    books.open_gate("go")
    await books.all_finished(1, within=15)
    assert books.outcomes(held.id) == ["retried", "succeeded"]
    books.assert_balanced(1)
    await worker.stop()
