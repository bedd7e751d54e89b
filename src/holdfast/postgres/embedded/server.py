"""The embedded server as its users see it: enter, get a DSN, leave. The last one to leave stops it."""

import atexit
import os
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

from holdfast.domain.duration import duration
from holdfast.errors import InvalidInput
from holdfast.postgres.embedded.binaries import find_binaries
from holdfast.postgres.embedded.database import DATABASE, read_password
from holdfast.postgres.embedded.endpoint import Endpoint
from holdfast.postgres.embedded.layout import DEFAULT_DIRECTORY, Layout
from holdfast.postgres.embedded.postmaster import Postmaster, StopMode
from holdfast.postgres.embedded.starting import Wishes, ensure_running, remove_temporary_socket
from holdfast.postgres.embedded.usage import Use, deciding


class EmbeddedServer:
    """A private Postgres in a directory, shared by all who start one there. Its calls block."""

    def __init__(self, layout: Layout, *, keep: bool) -> None:
        self._layout = layout
        self._keep = keep
        self._use = Use(layout)
        self._leaving = threading.Lock()
        self._endpoint: Endpoint | None = None

    @classmethod
    def start(
        cls,
        directory: str | os.PathLike[str] = DEFAULT_DIRECTORY,
        *,
        keep: bool = False,
        settings: Mapping[str, str] | None = None,
        tcp: bool = False,
        socket_directory: str | os.PathLike[str] | None = None,
        start_timeout: str | timedelta = "30s",
    ) -> "EmbeddedServer":
        """Join the server of this directory, or start it, making its data on the first day.

        `keep` leaves Postgres running if this user is the last to leave. `tcp` also listens on a port
        of 127.0.0.1, with a password. `settings` are Postgres's own, such as `{"fsync": "off"}`.
        """
        wishes = Wishes(
            settings=dict(settings or {}),
            tcp=tcp,
            socket_directory=None if socket_directory is None else Path(socket_directory).resolve(),
            start_seconds=duration(start_timeout, name="start_timeout").total_seconds(),
        )
        server = cls(Layout(Path(directory).resolve()), keep=keep)
        server._enter(wishes)
        return server

    @property
    def directory(self) -> Path:
        return self._layout.root

    @property
    def log(self) -> Path:
        """The file that Postgres writes its messages to."""
        return self._layout.log

    @property
    def pid(self) -> int | None:
        """The process id of the running Postgres, or None."""
        return Postmaster(self._layout).pid

    @property
    def dsn(self) -> str:
        """Where the database `holdfast` is reached, over a socket that only this user can open."""
        return self.dsn_for(DATABASE)

    @property
    def psql(self) -> str:
        """The path of a psql that fits this server: it comes with the same binaries."""
        return find_binaries().program("psql")

    @property
    def url(self) -> str:
        """The same as a URL: for psql, and for SQLAlchemy with its driver's name added."""
        return self._known_endpoint.url(DATABASE)

    def dsn_for(self, database: str) -> str:
        """The same server, another database, which is not created."""
        return self._known_endpoint.dsn(database)

    @property
    def tcp_dsn(self) -> str:
        """Where the database `holdfast` is reached over TCP; only for a server started with `tcp=True`."""
        if not self._known_endpoint.has_tcp:
            raise InvalidInput("this server does not listen on TCP: start it with tcp=True")
        return self._known_endpoint.tcp_dsn(DATABASE, read_password(self._layout))

    def is_running(self) -> bool:
        """Whether the process is there now, whatever was written down about it."""
        return self.pid is not None

    def stop(self, mode: StopMode = "fast") -> None:
        """Leave. Postgres stops if no other process uses it and it is not to be kept. Twice is harmless."""
        if mode not in get_args(StopMode):
            raise InvalidInput(
                f"{mode!r} is not a way to stop: choose one of {', '.join(get_args(StopMode))}"
            )
        self._leave(mode, keep=self._keep)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _known_endpoint(self) -> Endpoint:
        assert self._endpoint is not None, "made by start()"  # noqa: S101 - a mistake of this package
        return self._endpoint

    def _enter(self, wishes: Wishes) -> None:
        self._layout.make()
        was_running = self.is_running()
        try:
            with deciding(self._layout):
                is_alone = self._use.begin()
                self._endpoint = ensure_running(self._layout, wishes, is_alone=is_alone)
        except BaseException:
            # Also on Ctrl-C: a server that was half started for us alone must not stay.
            self._leave("immediate", keep=was_running)
            raise
        atexit.register(self.stop)

    def _leave(self, mode: StopMode, *, keep: bool) -> None:
        with self._leaving:
            if not self._use.is_open:
                return
            atexit.unregister(self.stop)
            if not self._layout.root.exists():
                # Deleted under us. Postgres misses its pid file within a minute, and ends.
                self._use.drop()
                return
            with deciding(self._layout):
                if self._use.end() and not keep:
                    Postmaster(self._layout).stop(mode)
                    remove_temporary_socket(self._layout)
