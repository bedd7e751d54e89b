"""After kills, leftover files and damage the next start succeeds, or says what to do."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest

from embedded.server_users import User
from holdfast.errors import DataDirectoryError, DataVersionMismatch, ServerStartFailed
from holdfast.postgres.embedded import EmbeddedServer, find_binaries, usage
from holdfast.postgres.embedded.layout import Layout
from holdfast.postgres.embedded.locks import FileLock
from holdfast.postgres.embedded.postmaster import Postmaster
from holdfast.postgres.embedded.server_user import ServerUser
from support.server_faults import kill, start_again
from support.waiting import block_until

FAST = {"fsync": "off"}
MakeUser = Callable[..., User]


def test_a_directory_that_cannot_be_made_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirectoryError, match="choose a directory that this user may create and write to"):
        EmbeddedServer.start(tmp_path / "file" / ".holdfast")
    with pytest.raises(DataDirectoryError, match="File exists"):
        EmbeddedServer.start(tmp_path / "file")


@pytest.fixture
def closed() -> Iterator[Path]:
    """A directory that all users can reach, unlike pytest's own, and only root can write to."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o555)
        yield Path(made)
        Path(made).chmod(0o755)


@pytest.mark.parametrize("place", [".", ".holdfast"])
def test_a_directory_that_cannot_be_written_is_an_error_that_says_so(closed: Path, place: str) -> None:
    """In a process of its own: permissions do not bind root, so the process runs as the user nobody."""
    options = {"as_user": pwd.getpwnam("nobody").pw_uid} if os.geteuid() == 0 else {}
    user = User(closed / place, options)
    told = user.start().facts()
    user.close()
    assert told["error"] == "DataDirectoryError"
    assert "Permission denied" in told["message"]
    assert "choose a directory that this user may create and write to" in told["message"]


def test_data_of_another_major_version_is_left_alone(own_directory: Path) -> None:
    (own_directory / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(DataVersionMismatch, match="point HOLDFAST_PG_BIN at Postgres 12") as caught:
        EmbeddedServer.start(own_directory)
    assert (caught.value.found, caught.value.binaries) == ("12", find_binaries().version)


def test_a_data_directory_that_is_not_postgres_s_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "letters.txt").touch()
    with pytest.raises(DataDirectoryError, match="move it away"):
        EmbeddedServer.start(tmp_path)
    assert (tmp_path / "data" / "letters.txt").exists()


def test_a_killed_postmaster_is_seen_and_replaced(server: EmbeddedServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("create table if not exists kept (at timestamptz default now())")
        connection.execute("insert into kept default values")
        kill(server)
        assert not server.is_running()
    with (
        EmbeddedServer.start(server.directory, settings=FAST) as other,
        psycopg.connect(other.dsn) as connection,
    ):
        assert other.dsn == server.dsn
        assert connection.execute("select count(*) > 0 from kept").fetchone() == (True,)


def test_a_backend_that_outlives_its_postmaster_is_ended_before_the_next_start(
    server: EmbeddedServer,
) -> None:
    endless = "select count(*) from generate_series(1, 1000000000) a, generate_series(1, 1000000) b"

    def run_endless() -> None:
        with pytest.raises(psycopg.OperationalError), psycopg.connect(server.dsn) as connection:
            connection.execute(endless)

    busy = threading.Thread(target=run_endless)
    busy.start()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        active = "select 1 from pg_stat_activity where state = 'active' and query = %s"
        block_until(lambda: connection.execute(active, [endless]).fetchone() is not None)
        kill(server)
    start_again(server)
    busy.join(30)
    assert not busy.is_alive()
    psycopg.connect(server.dsn).close()


@pytest.mark.parametrize("victim", ["postmaster", "backend"])
def test_a_server_that_is_killed_while_someone_joins_still_serves_him(
    server: EmbeddedServer, victim: str
) -> None:
    with psycopg.connect(server.dsn) as connection:
        pid = server.pid if victim == "postmaster" else connection.info.backend_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with EmbeddedServer.start(server.directory, settings=FAST) as other:
            psycopg.connect(other.dsn).close()


def test_leaving_after_the_postmaster_was_killed_is_quiet(directory: Path) -> None:
    with EmbeddedServer.start(directory, settings=FAST) as server:
        kill(server)


@contextmanager
def sleeping() -> Iterator[int]:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        yield stranger.pid
    finally:
        stranger.kill()
        stranger.wait()


@contextmanager
def zombie() -> Iterator[int]:
    """A dead process of the right name that its parent has not buried."""
    process = subprocess.Popen([find_binaries().program("postgres"), "--version"], stdout=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        yield process.pid
    finally:
        process.wait()


@contextmanager
def nobody() -> Iterator[int]:
    with sleeping() as pid:
        pass
    yield pid


@pytest.mark.parametrize("owner", [sleeping, zombie, nobody])
def test_a_pid_file_that_names_someone_else_is_stale(
    directory: Path, owner: Callable[[], AbstractContextManager[int]]
) -> None:
    with EmbeddedServer.start(directory, settings=FAST) as server:
        kill(server)
        with owner() as pid:
            for path in (
                directory / "data" / "postmaster.pid",
                *(directory / "socket").glob(".s.PGSQL.*.lock"),
            ):
                _, rest = path.read_text().split("\n", 1)
                path.write_text(f"{pid}\n{rest}")
            assert not server.is_running()
            start_again(server)
            assert server.pid not in {pid, None}


@pytest.mark.parametrize("content", ["", "rubbish\n", "999999999999999999999\n", "-1\n"])
def test_a_damaged_pid_file_is_stale(directory: Path, content: str) -> None:
    (directory / "data" / "postmaster.pid").write_text(content)
    with EmbeddedServer.start(directory, settings=FAST) as server:
        assert server.is_running()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"socket_directory": 1}'])
def test_a_damaged_record_is_rewritten(directory: Path, content: str) -> None:
    (directory / "server.json").write_text(content)
    with EmbeddedServer.start(directory, settings=FAST):
        assert json.loads((directory / "server.json").read_text())["settings"] == FAST


def test_an_initdb_killed_half_way_does_not_wedge_the_directory(tmp_path: Path) -> None:
    fresh = tmp_path / ".holdfast"
    first = User(fresh, {"settings": FAST}).start()
    try:
        block_until(lambda: any(fresh.glob("data.new-*/base")))
        first.signal_group(signal.SIGKILL)
    finally:
        first.close()
    assert not (fresh / "data").exists()
    with EmbeddedServer.start(fresh, settings=FAST) as server:
        psycopg.connect(server.dsn).close()
    assert not list(fresh.glob("data.new-*"))


def test_ctrl_c_during_the_first_start_leaves_nothing_half_done(tmp_path: Path) -> None:
    fresh = tmp_path / ".holdfast"
    first = User(fresh, {"settings": FAST}).start()
    try:
        block_until(lambda: any(fresh.glob("data.new-*/base")))
        first.signal_group(signal.SIGINT)
    finally:
        first.close()
    assert not list(fresh.glob("data*"))


def test_a_starter_killed_before_the_server_was_ready_leaves_one_that_can_be_joined(
    directory: Path, user: MakeUser
) -> None:
    starter = user().start()
    block_until(lambda: Postmaster(Layout(directory)).pid is not None)
    starter.kill()
    with EmbeddedServer.start(directory, settings=FAST) as server:
        psycopg.connect(server.dsn).close()
    assert not server.is_running()


def test_a_database_that_was_dropped_is_made_again(server: EmbeddedServer) -> None:
    with psycopg.connect(server.dsn_for("postgres"), autocommit=True) as connection:
        connection.execute("drop database holdfast with (force)")
    with EmbeddedServer.start(server.directory, settings=FAST) as other:
        psycopg.connect(other.dsn).close()


def test_a_copy_of_a_running_directory_is_a_server_of_its_own(server: EmbeddedServer, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(server.directory, copy, ignore=shutil.ignore_patterns(".s.PGSQL.5432"))
    with EmbeddedServer.start(copy, settings=FAST) as other:
        assert other.pid not in {server.pid, None}
        psycopg.connect(other.dsn).close()
    assert server.is_running()


def test_a_server_started_by_hand_is_neither_used_nor_stopped(directory: Path, tmp_path: Path) -> None:
    program = find_binaries().program("postgres")
    options = ["-D", str(directory / "data"), "-c", "listen_addresses=", "-k", str(tmp_path)]
    server_user = ServerUser.for_server(directory)
    (directory / "data" / "postmaster.pid").unlink(missing_ok=True)
    with (tmp_path / "log").open("wb") as log:
        by_hand = subprocess.Popen([*server_user.prefix, program, *options], stderr=log, cwd="/")
    try:
        block_until(lambda: Postmaster(Layout(directory)).pid == by_hand.pid)
        with pytest.raises(DataDirectoryError, match=f"process {by_hand.pid}.*stop it first"):
            EmbeddedServer.start(directory)
        assert by_hand.poll() is None
    finally:
        by_hand.send_signal(signal.SIGINT)
        by_hand.wait(30)


def test_a_server_that_does_not_answer_in_time_is_ended_and_its_log_told(directory: Path) -> None:
    with pytest.raises(ServerStartFailed, match=r"did not answer within 0.001 s"):
        EmbeddedServer.start(directory, settings=FAST, start_timeout="1ms")
    assert not (directory / "data" / "postmaster.pid").exists()


def test_a_start_that_another_process_blocks_gives_up(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "_DECISION_SECONDS", 0.05)
    blocker = FileLock(directory / "decision.lock")
    assert blocker.take_exclusive()
    try:
        with pytest.raises(DataDirectoryError, match="another process has been starting or stopping"):
            EmbeddedServer.start(directory)
    finally:
        blocker.close()


def test_a_long_log_is_set_aside(directory: Path) -> None:
    with (directory / "postgres.log").open("wb") as log:
        log.truncate(20_000_000)
    EmbeddedServer.start(directory, settings=FAST).stop()
    assert (directory / "postgres.log").stat().st_size < 100_000
    (directory / "postgres.log.1").unlink()
