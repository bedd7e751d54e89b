"""Several processes share one embedded server: the first starts it, the last one stops it."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from embedded.server_users import User
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.embedded.layout import Layout

FAST = {"fsync": "off"}
MakeUser = Callable[..., User]


def test_the_first_start_makes_the_directory_hidden_from_git_and_the_database() -> None:
    # The socket is in the directory only if its path is short, which pytest's own paths need not be.
    with (
        TemporaryDirectory(prefix="holdfast-") as folder,
        EmbeddedServer.start(Path(folder) / "project" / ".holdfast") as server,
    ):
        with psycopg.connect(server.dsn) as connection:
            row = connection.execute(
                "select current_database(), current_setting('fsync'), current_setting('listen_addresses')"
            ).fetchone()
        assert row == ("holdfast", "on", "")
        assert (server.directory / ".gitignore").read_text() == "*\n"
        assert (server.directory / "socket").stat().st_mode & 0o777 == 0o700
    assert not server.is_running()


def test_nothing_is_hidden_from_git_in_a_directory_that_held_something(tmp_path: Path) -> None:
    (tmp_path / "important.py").touch()
    Layout(tmp_path).make()
    assert not (tmp_path / ".gitignore").exists()


def test_leaving_twice_is_harmless(directory: Path) -> None:
    server = EmbeddedServer.start(directory, settings=FAST)
    server.stop()
    server.stop("immediate")
    assert not server.is_running()


def test_two_servers_in_one_process_are_two_users_of_one_postgres(directory: Path) -> None:
    first = EmbeddedServer.start(directory, settings=FAST)
    second = EmbeddedServer.start(directory, settings=FAST)
    assert first.pid == second.pid is not None
    first.stop()
    assert second.is_running()
    psycopg.connect(second.dsn).close()
    second.stop()
    assert not first.is_running()


def test_another_database_is_named_but_not_created(server: EmbeddedServer) -> None:
    with pytest.raises(psycopg.OperationalError, match='"other" does not exist'):
        psycopg.connect(server.dsn_for("other"))


def test_processes_that_start_at_the_same_instant_share_one_server(directory: Path, user: MakeUser) -> None:
    users = [user() for _ in range(3)]
    for each in users:
        each.start()
    assert len({each.facts()["pid"] for each in users}) == 1


def test_processes_that_make_the_data_at_the_same_instant_share_it(tmp_path: Path) -> None:
    users = [User(tmp_path / "new", {"settings": FAST}) for _ in range(2)]
    try:
        for each in users:
            each.start()
        assert len({each.facts()["pid"] for each in users}) == 1
        for each in users:
            each.leave()
        assert not (tmp_path / "new" / "data" / "postmaster.pid").exists()
    finally:
        for each in users:
            each.close()


def test_the_last_process_to_leave_stops_the_server(server: EmbeddedServer, user: MakeUser) -> None:
    other = user().start()
    assert other.facts()["pid"] == server.pid
    server.stop()
    assert server.is_running()
    other.leave()
    assert not server.is_running()


def test_the_end_of_the_program_is_leaving(server: EmbeddedServer, user: MakeUser) -> None:
    other = user().start()
    other.facts()
    server.stop()
    other.exit_without_leaving()
    assert not server.is_running()


def test_a_kept_server_stays_and_is_joined(directory: Path) -> None:
    with EmbeddedServer.start(directory, settings=FAST, keep=True) as first:
        pid = first.pid
    assert first.is_running()
    with EmbeddedServer.start(directory, settings=FAST) as second:
        assert second.pid == pid
    assert not second.is_running()


def test_a_killed_user_is_no_longer_counted(server: EmbeddedServer, user: MakeUser) -> None:
    other = user().start()
    other.facts()
    other.kill()
    assert server.is_running()
    server.stop()
    assert not server.is_running()


def test_a_server_left_by_a_killed_user_is_joined_and_stopped_by_the_next(
    directory: Path, user: MakeUser
) -> None:
    lone = user().start()
    pid = lone.facts()["pid"]
    lone.kill()
    with EmbeddedServer.start(directory, settings=FAST) as server:
        assert server.pid == pid
    assert not server.is_running()


def test_ctrl_c_in_the_terminal_of_its_starter_leaves_the_server_to_the_others(
    directory: Path, user: MakeUser
) -> None:
    starter = user().start()
    pid = starter.facts()["pid"]
    with EmbeddedServer.start(directory, settings=FAST) as server:
        starter.signal_group(signal.SIGINT)
        psycopg.connect(server.dsn).close()
        assert server.pid == pid


def test_a_forked_child_is_a_user_of_its_own(directory: Path) -> None:
    # A program that forks and leaves at once, as daemons do: the child still finds the server.
    code = f"""
import os, sys, psycopg
from pathlib import Path
from holdfast.postgres.embedded import EmbeddedServer
server = EmbeddedServer.start({str(directory)!r}, settings={FAST!r})
left, has_left = os.pipe()
if os.fork() == 0:
    os.read(left, 1)
    psycopg.connect(server.dsn).close()
    print("served")
    sys.exit()
server.stop()
print("still running" if server.is_running() else "stopped too early", flush=True)
os.write(has_left, b"x")
os.wait()
print("stopped" if not server.is_running() else "left behind")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n") == ["still running", "served", "stopped", ""]


def test_a_program_started_meanwhile_does_not_hold_the_server(server: EmbeddedServer) -> None:
    sleeper = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        server.stop()
        assert not server.is_running()
    finally:
        sleeper.kill()
        sleeper.wait()


def test_threads_that_start_and_leave_at_once_end_with_no_server(directory: Path) -> None:
    seen: list[int | None] = []

    def use() -> None:
        with EmbeddedServer.start(directory, settings=FAST) as server:
            psycopg.connect(server.dsn).close()
            seen.append(server.pid)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert None not in seen
    assert not (directory / "data" / "postmaster.pid").exists()


def test_a_directory_that_was_moved_away_under_its_user_can_be_left(directory: Path, tmp_path: Path) -> None:
    server = EmbeddedServer.start(directory, settings=FAST)
    directory.rename(tmp_path / "elsewhere")
    try:
        server.stop()
    finally:
        (tmp_path / "elsewhere").rename(directory)
