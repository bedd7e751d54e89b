"""Settings, TCP and sockets: what a caller asks for, and what it gets on a server that already runs."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.errors import (
    DataDirectoryError,
    EmbeddedError,
    InvalidInput,
    ServerStartFailed,
    SocketPathTooLong,
)
from holdfast.postgres.embedded import EmbeddedServer, endpoint
from support.server_faults import kill, restart, start_again, stop_now

FAST = {"fsync": "off"}


def setting(dsn: str, name: str) -> str:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def test_settings_reach_postgres_whatever_they_hold(directory: Path) -> None:
    wished = {"work_mem": "7MB", "search_path": '"it\'s", "$HOME; $(date)"'}
    with EmbeddedServer.start(directory, settings=wished) as server:
        assert {name: setting(server.dsn, name) for name in wished} == wished


def test_settings_that_are_the_launchers_own_are_refused(directory: Path) -> None:
    with pytest.raises(InvalidInput, match="port, unix_socket_directories"):
        EmbeddedServer.start(directory, settings={"Port": "1", "unix_socket_directories": "/tmp"})


def test_a_setting_that_postgres_refuses_is_told_from_its_log(directory: Path) -> None:
    with pytest.raises(ServerStartFailed, match='unrecognized configuration parameter "no_such_thing"'):
        EmbeddedServer.start(directory, settings={"no_such_thing": "1"})


def test_other_settings_than_a_shared_server_has_are_warned_about(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "holdfast.postgres.embedded"),
        EmbeddedServer.start(server.directory, settings={"fsync": "on", "work_mem": "9MB"}) as other,
    ):
        assert other.pid == server.pid
    assert "fsync is 'off', not 'on'; work_mem is 'not set', not '9MB'" in caplog.text


def test_a_kept_server_without_users_is_restarted_for_other_settings(directory: Path) -> None:
    EmbeddedServer.start(directory, settings={"fsync": "off", "work_mem": "5MB"}, keep=True).stop()
    with EmbeddedServer.start(directory) as server:
        assert setting(server.dsn, "fsync") == "on"
        assert setting(server.dsn, "work_mem") == "4MB"


def test_tcp_needs_the_generated_password(directory: Path) -> None:
    with EmbeddedServer.start(directory, settings=FAST, tcp=True) as server:
        assert (directory / "password").stat().st_mode & 0o777 == 0o600
        assert setting(server.tcp_dsn, "listen_addresses") == "127.0.0.1"
        assert str(conninfo_to_dict(server.tcp_dsn)["password"]) not in server.log.read_text()
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(make_conninfo(server.tcp_dsn, password="guess"))
        for database in ("holdfast", "postgres"):
            nameless = make_conninfo(server.tcp_dsn, password="", dbname=database)
            with pytest.raises(psycopg.OperationalError, match="no password supplied"):
                psycopg.connect(nameless, passfile="/dev/null")


def test_a_lost_password_file_is_replaced_at_the_next_start(directory: Path) -> None:
    EmbeddedServer.start(directory, settings=FAST, tcp=True).stop()
    (directory / "password").unlink()
    with EmbeddedServer.start(directory, settings=FAST, tcp=True) as server:
        psycopg.connect(server.tcp_dsn).close()


def test_tcp_cannot_be_added_to_a_server_that_others_use(server: EmbeddedServer) -> None:
    with pytest.raises(EmbeddedError, match="does not listen on TCP"):
        EmbeddedServer.start(server.directory, settings=FAST, tcp=True)
    assert server.is_running()
    with pytest.raises(InvalidInput, match="start it with tcp=True"):
        _ = server.tcp_dsn


def test_addresses_survive_every_kind_of_restart(directory: Path) -> None:
    with EmbeddedServer.start(directory, settings=FAST, tcp=True) as server:
        restart(server)
        psycopg.connect(server.tcp_dsn).close()
        kill(server)
        start_again(server)
        psycopg.connect(server.dsn).close()
        stop_now(server, "fast")
        assert not server.is_running()
        start_again(server)
        psycopg.connect(server.tcp_dsn).close()


@contextmanager
def called(name: str, directory: Path, tmp_path: Path) -> Iterator[Path]:
    """The directory under another name for a while."""
    directory.rename(tmp_path / name)
    try:
        yield tmp_path / name
    finally:
        (tmp_path / name).rename(directory)


def test_a_path_too_long_for_a_socket_gets_a_private_temporary_directory(
    directory: Path, tmp_path: Path
) -> None:
    with called("long" * 30, directory, tmp_path) as deep:
        with EmbeddedServer.start(deep, settings=FAST) as server:
            socket_directory = Path(str(conninfo_to_dict(server.dsn)["host"]))
            assert not socket_directory.is_relative_to(deep)
            assert socket_directory.stat().st_mode & 0o777 == 0o700
            restart(server)
            psycopg.connect(server.dsn).close()
        assert not socket_directory.exists()


@pytest.mark.parametrize("name", ["with,comma", "with space 'quote\"s å日本 $(date);`id`&"])
def test_any_name_of_a_directory_will_do(directory: Path, tmp_path: Path, name: str) -> None:
    with called(name, directory, tmp_path) as odd, EmbeddedServer.start(odd, settings=FAST) as server:
        psycopg.connect(server.dsn).close()
        kill(server)
        start_again(server)
        psycopg.connect(server.dsn).close()


def test_a_socket_directory_that_was_asked_for_is_used_or_refused(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(SocketPathTooLong, match="the limit is"):
        EmbeddedServer.start(directory, settings=FAST, socket_directory=tmp_path / ("long" * 30))
    with EmbeddedServer.start(directory, settings=FAST, socket_directory=tmp_path / "s") as server:
        assert conninfo_to_dict(server.dsn)["host"] == str(tmp_path / "s")
        restart(server)
        psycopg.connect(server.dsn).close()
    assert (tmp_path / "s").exists(), "it is the user's to remove"


def test_a_socket_that_others_could_reach_is_refused(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(DataDirectoryError, match=re.escape("closed to others (mode 0700)")):
        EmbeddedServer.start(directory, settings=FAST, socket_directory=tmp_path / "open")


def test_where_even_a_temporary_path_is_too_long_the_error_says_so(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "SOCKET_PATH_LIMIT", 20)
    with pytest.raises(SocketPathTooLong, match="the limit is 20"):
        EmbeddedServer.start(directory, settings=FAST)
