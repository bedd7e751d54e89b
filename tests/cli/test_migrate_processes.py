"""`holdfast migrate` in real processes: many at once, killed, interrupted."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from cli.processes import started, wait_until
from holdfast.postgres.migrations.steps import lock
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged
from migrations.migration_folders import NOTES, ROWS, migrations

pytestmark = pytest.mark.machine  # each starts several interpreters

TEN = Schema("ten")
IN_THE_MIDDLE = "select pg_advisory_xact_lock(42);"
WAITING = (
    "select count(*) = {} from pg_locks where locktype = 'advisory' and not granted"
    " and database = (select oid from pg_database where datname = current_database())"
)


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


def has_schema(conn: psycopg.Connection, name: str) -> bool:
    return bool(conn.execute("select 1 from pg_namespace where nspname = %s", [name]).fetchone())


@pytest.mark.requirement("S2.6")
def test_ten_processes_at_once_all_succeed_and_apply_each_migration_once(
    conn: psycopg.Connection, dsn: str
) -> None:
    with ExitStack() as stack:
        with conn.transaction():
            # All ten find an empty database and stand before the lock, then all are let go at once.
            conn.execute(lock(TEN))
            arguments = ("migrate", "--dsn", dsn, "--schema", TEN.name, "--lock-timeout", "100s")
            processes = [stack.enter_context(started(*arguments)) for _ in range(10)]
            wait_until(conn, WAITING.format(10))
        outputs = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0] * 10, outputs
    applied = [line for out, _ in outputs for line in out.splitlines() if line.startswith("applying")]
    assert applied == [f"applying {each}" for each in packaged()]
    assert conn.execute("select version from ten.migration order by 1").fetchall() == [
        (each.version,) for each in packaged()
    ]


@pytest.fixture
def half_way(conn: psycopg.Connection, dsn: str, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that stands between its first and its last migration, for as long as lock 42 is held."""
    migrations(tmp_path, NOTES, IN_THE_MIDDLE, ROWS)
    conn.execute("select pg_advisory_lock(42)")
    arguments = ("migrate", "--dsn", dsn, "--schema", "trial", "--lock-timeout", "100s")
    with started(*arguments, folder=tmp_path) as process:
        wait_until(conn, WAITING.format(1))
        yield process


@pytest.mark.requirement("S2.6")
def test_a_process_killed_between_two_migrations_leaves_nothing_and_the_next_one_works(
    half_way: "subprocess.Popen[str]", conn: psycopg.Connection, dsn: str, tmp_path: Path
) -> None:
    half_way.kill()
    half_way.wait(timeout=60)
    # Postgres notices that the client is gone only when it sends something.
    conn.execute("select pg_advisory_unlock(42)")
    wait_until(
        conn,
        "select count(*) = 0 from pg_stat_activity"
        " where datname = current_database() and application_name = 'holdfast/migrate'",
    )
    assert not has_schema(conn, "trial")
    with started("migrate", "--dsn", dsn, "--schema", "trial", folder=tmp_path) as again:
        out, _ = again.communicate(timeout=60)
    assert (again.returncode, out.splitlines()[-1]) == (0, 'schema "trial" is at 3, it was at 0')


def test_ctrl_c_rolls_back_and_exits_without_a_traceback(
    half_way: "subprocess.Popen[str]", conn: psycopg.Connection
) -> None:
    half_way.send_signal(signal.SIGINT)
    out, err = half_way.communicate(timeout=60)
    assert half_way.returncode == 130
    assert out.splitlines() == ["applying 0001_step", "applying 0002_step"]
    assert err.strip() == "holdfast: interrupted"
    assert not has_schema(conn, "trial")
