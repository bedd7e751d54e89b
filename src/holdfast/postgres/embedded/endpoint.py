"""Where a server answers: its socket's directory and its port."""

import os
import socket
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from psycopg.conninfo import make_conninfo

from holdfast.errors import DataDirectoryError, SocketPathTooLong
from holdfast.postgres.embedded.cluster import SUPERUSER
from holdfast.postgres.embedded.server_user import ServerUser

SOCKET_PATH_LIMIT = 107 if sys.platform == "linux" else 103
_SOCKET_PORT = 5432
_LOOPBACK = "127.0.0.1"
_TEMPORARY = "holdfast-"


@dataclass(frozen=True, slots=True)
class Endpoint:
    socket_directory: Path
    port: int
    has_tcp: bool

    @property
    def listen_addresses(self) -> str:
        return _LOOPBACK if self.has_tcp else ""

    @property
    def unix_socket_directories(self) -> str:
        """In the syntax of the setting, where a comma separates directories."""
        return '"' + str(self.socket_directory).replace('"', '""') + '"'

    def dsn(self, database: str) -> str:
        host = str(self.socket_directory)
        return make_conninfo(host=host, port=self.port, user=SUPERUSER, dbname=database)

    def url(self, database: str) -> str:
        """The same as a URL, for what does not read key=value pairs, such as SQLAlchemy."""
        host = quote(str(self.socket_directory), safe="")
        return f"postgresql://{SUPERUSER}@/{quote(database, safe='')}?host={host}&port={self.port}"

    def tcp_dsn(self, database: str, password: str) -> str:
        return make_conninfo(
            host=_LOOPBACK, port=self.port, user=SUPERUSER, dbname=database, password=password
        )


def choose_port(previous: int | None, *, tcp: bool) -> int:
    """The port of last time if it is still free, so that addresses survive a restart.

    Another program can take it before Postgres does: the caller starts again with another one.
    """
    if not tcp:
        return _SOCKET_PORT
    for candidate in (previous or 0, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_LOOPBACK, candidate))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise AssertionError("the system always has a free port, or raises")


def choose_socket_directory(wished: Path, *, forced: bool, previous: Path | None, user: ServerUser) -> Path:
    """The wished one if its path is short enough, else a temporary one, else SocketPathTooLong."""
    if forced or _fits(wished):
        _require_fit(wished)
        return _made_private(wished, user, is_ours=not forced)
    if previous and _fits(previous) and _is_private(previous, user):
        return previous
    for parent in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108 - mkdtemp makes it private
        if _fits(parent / f"{_TEMPORARY}12345678"):
            made = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=parent))
            user.give(made)
            return made
    raise SocketPathTooLong(str(_socket_in(wished)), limit=SOCKET_PATH_LIMIT)


def _socket_in(directory: Path) -> Path:
    return directory / ".s.PGSQL.65535"


def _require_fit(directory: Path) -> None:
    if not _fits(directory):
        raise SocketPathTooLong(str(_socket_in(directory)), limit=SOCKET_PATH_LIMIT)


def _fits(directory: Path) -> bool:
    # A comma would be read as the end of the first of several hosts.
    return len(os.fsencode(_socket_in(directory))) <= SOCKET_PATH_LIMIT and "," not in str(directory)


def _made_private(directory: Path, user: ServerUser, *, is_ours: bool) -> Path:
    """A process that reaches the socket is the superuser, so no other user may enter its directory."""
    exists = directory.exists()
    if not exists:
        directory.mkdir(mode=0o700, parents=True)
    if is_ours or not exists:
        user.give(directory)
    if not _is_private(directory, user):
        raise DataDirectoryError(
            f"{directory} must belong to {user.name} and be closed to others (mode 0700), as every "
            "process that reaches the server's socket gets in without a password"
        )
    return directory


def _is_private(directory: Path, user: ServerUser) -> bool:
    """Still there, a real directory, of the right owner and closed to others: /tmp belongs to everybody."""
    try:
        status = directory.lstat()
    except FileNotFoundError:
        return False
    owner = os.geteuid() if user.user is None else user.user
    return stat.S_ISDIR(status.st_mode) and status.st_uid == owner and not status.st_mode & 0o077
