"""The blocking database: threads, lazy opening and fork."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from connections.both_databases import BACKEND, asking
from holdfast.errors import DatabaseClosed
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.options import PoolOptions


def test_nothing_is_connected_before_the_first_use() -> None:
    BlockingDatabase("host=127.0.0.1 port=1")


def test_many_threads_share_a_few_connections(dsn: str) -> None:
    with BlockingDatabase(dsn, PoolOptions(pool_max_conns=3)) as database, ThreadPoolExecutor(16) as threads:
        backends = set(threads.map(lambda _: database.run_one(BACKEND), range(200)))
    assert 1 <= len(backends) <= 3


def test_threads_that_come_first_together_open_one_pool(dsn: str) -> None:
    database, gate = BlockingDatabase(dsn, PoolOptions(pool_max_conns=2)), threading.Barrier(8)

    def first_use(_: int) -> object:
        gate.wait(10)
        return database.run_one(BACKEND)

    with ThreadPoolExecutor(8) as threads:
        backends = set(threads.map(first_use, range(8)))
    database.close()
    assert len(backends) <= 2


async def test_it_may_be_used_where_a_loop_runs(dsn: str) -> None:
    with BlockingDatabase(dsn) as database:
        assert database.run_one(BACKEND)


def test_use_after_closing_is_a_clear_error(dsn: str) -> None:
    database = BlockingDatabase(dsn)
    with database:
        database.run(BACKEND)
    with pytest.raises(DatabaseClosed, match="closed"):
        database.run(BACKEND)
    with pytest.raises(DatabaseClosed, match="closed"):
        database.dedicated(purpose="lease-keeper")


def test_a_dedicated_connection_is_the_callers(dsn: str) -> None:
    with BlockingDatabase(dsn, PoolOptions(pool_max_conns=1)) as database:
        with database.dedicated(purpose="lease-keeper") as connection, database.connection() as pooled:
            assert pooled.info.backend_pid != connection.info.backend_pid
            row = connection.execute("select current_setting('application_name')").fetchone()
        assert row == ("holdfast/lease-keeper",)


FORK = """
import os, sys
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.statement import Statement

backend = Statement("backend", "select pg_backend_pid()", {}, int)
database = BlockingDatabase(sys.argv[1])
parents = database.run_one(backend)
child = os.fork()
if child == 0:
    is_ours = database.run_one(backend) != parents
    database.close()
    sys.exit(0 if is_ours else 3)
_, status = os.waitpid(child, 0)
again = database.run_one(backend)
print(os.waitstatus_to_exitcode(status), again == parents)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_has_connections_of_its_own_and_leaves_the_parents_alone(dsn: str) -> None:
    may_fork = "ignore:This process:DeprecationWarning"  # since Python 3.12
    command = [sys.executable, "-W", may_fork, "-c", FORK, dsn]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("0 True\n", "")


FORGOTTEN = """
import sys
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.statement import Statement
BlockingDatabase(sys.argv[1]).run(Statement("x", "select 1", {}, int))
kept = BlockingDatabase(sys.argv[1])
kept.run(Statement("x", "select 1", {}, int))
"""


def test_a_program_that_never_closes_it_ends_quietly(dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGOTTEN, dsn],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_transaction_is_rolled_back_when_its_block_fails(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table kept (n int)")
    with BlockingDatabase(dsn) as database:
        with pytest.raises(ZeroDivisionError):
            _insert_and_fail(database)
        assert database.run_one(asking("select count(*) from kept")) == 0


def _insert_and_fail(database: BlockingDatabase) -> None:
    with database.transaction() as transaction:
        transaction.run(asking("insert into kept values (1) returning n"))
        raise ZeroDivisionError
