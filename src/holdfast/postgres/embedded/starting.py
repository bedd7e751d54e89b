"""Bring a server into the state that a user wishes: join the running one, or start it."""

import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from holdfast.errors import DataDirectoryError, EmbeddedError, InvalidInput, ServerStartFailed
from holdfast.postgres.embedded.binaries import Binaries, find_binaries
from holdfast.postgres.embedded.cluster import ensure_cluster
from holdfast.postgres.embedded.database import ensure_database
from holdfast.postgres.embedded.endpoint import Endpoint, choose_port, choose_socket_directory
from holdfast.postgres.embedded.failures import explained
from holdfast.postgres.embedded.layout import Layout
from holdfast.postgres.embedded.locks import is_held
from holdfast.postgres.embedded.postmaster import Postmaster
from holdfast.postgres.embedded.record import Record
from holdfast.postgres.embedded.server_user import ServerUser

_log = logging.getLogger("holdfast.postgres.embedded")
_DEFAULTS = {"cluster_name": "holdfast", "log_checkpoints": "off"}
_OURS = frozenset(
    {
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "listen_addresses",
        "logging_collector",
        "port",
        "unix_socket_directories",
        "unix_socket_permissions",
    }
)
_PORT_TAKEN = "could not create any TCP/IP sockets"
_PORT_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Wishes:
    """What one user asks of the server."""

    settings: Mapping[str, str] = field(default_factory=dict)
    tcp: bool = False
    socket_directory: Path | None = None
    start_seconds: float = 30.0

    def __post_init__(self) -> None:
        if refused := sorted(_OURS & {name.lower() for name in self.settings}):
            raise InvalidInput(
                f"{', '.join(refused)}: chosen by the embedded server, leave it out of settings"
            )

    def unmet_by(self, record: Record) -> list[str]:
        """What the running server does otherwise, in words."""
        found = [
            f"{name} is {record.settings.get(name, 'not set')!r}, not {value!r}"
            for name, value in self.settings.items()
            if record.settings.get(name) != value
        ]
        if self.socket_directory not in {None, record.endpoint.socket_directory}:
            found.append(
                f"its socket is in {record.endpoint.socket_directory}, not in {self.socket_directory}"
            )
        if self.tcp and not record.endpoint.has_tcp:
            found.append("it does not listen on TCP")
        return found


def ensure_running(layout: Layout, wishes: Wishes, *, is_alone: bool) -> Endpoint:
    """Call while deciding, already counted as a user."""
    postmaster = Postmaster(layout)
    record = Record.read(layout.record)
    if (pid := postmaster.pid) is None:
        return start(layout, wishes, record)
    if record is None or not is_held(layout.server_lock):
        raise DataDirectoryError(
            f"a server that Holdfast did not start is at work on {layout.data} (process {pid}): stop it first"
        )
    unmet = wishes.unmet_by(record)
    if is_alone and (unmet or record.settings != wishes.settings):
        _log.info("restarting the embedded server in %s with other settings", layout.root)
        postmaster.stop("fast")
        return start(layout, wishes, record)
    if wishes.tcp and not record.endpoint.has_tcp:
        raise EmbeddedError(
            f"the server in {layout.root} is in use and does not listen on TCP: start its first user with "
            "tcp=True, or take another directory"
        )
    if unmet:
        _log.warning("the embedded server in %s is in use as it is: %s", layout.root, "; ".join(unmet))
    return _join(layout, wishes, record)


def _join(layout: Layout, wishes: Wishes, record: Record) -> Endpoint:
    postmaster = Postmaster(layout)
    try:
        postmaster.wait_until_ready(wishes.start_seconds, log_offset=0)
        ensure_database(layout, record.endpoint, wishes.start_seconds)
    except EmbeddedError:
        if postmaster.pid is not None:
            raise
        # It was alive when we looked, and was killed before it answered.
        return start(layout, wishes, record)
    return record.endpoint


def start(layout: Layout, wishes: Wishes, previous: Record | None) -> Endpoint:
    """Start a server where none runs, making its data on the first day."""
    binaries = find_binaries()
    with explained(layout.root):
        user = ServerUser.for_server(layout.data if layout.data.exists() else layout.root)
    user.require_reach(binaries.directory, layout.root)
    ensure_cluster(layout, binaries, user, synced=wishes.settings.get("fsync") != "off")
    record = _launch(layout, wishes, previous, binaries, user)
    ensure_database(layout, record.endpoint, wishes.start_seconds)
    layout.give(user)
    return record.endpoint


def _launch(
    layout: Layout, wishes: Wishes, previous: Record | None, binaries: Binaries, user: ServerUser
) -> Record:
    postmaster = Postmaster(layout)
    for attempt in count(1):
        with explained(layout.root):
            record = _record(layout, wishes, previous, user)
            record.write(layout.record)
            offset = postmaster.launch(binaries, user, record.endpoint, _DEFAULTS | dict(wishes.settings))
        try:
            postmaster.wait_until_ready(wishes.start_seconds, log_offset=offset)
        except ServerStartFailed as error:
            # Between our look and Postgres's, another program can take the port.
            if attempt == _PORT_ATTEMPTS or _PORT_TAKEN not in error.log_tail:
                raise
        else:
            return record
    raise AssertionError("unreachable: the last attempt returns or raises")


def _record(layout: Layout, wishes: Wishes, previous: Record | None, user: ServerUser) -> Record:
    known = previous.endpoint if previous else None
    socket_directory = choose_socket_directory(
        wishes.socket_directory or layout.socket,
        forced=wishes.socket_directory is not None,
        previous=previous.temporary_directory if previous else None,
        user=user,
    )
    is_temporary = socket_directory not in {layout.socket, wishes.socket_directory}
    port = choose_port(known.port if known and known.has_tcp else None, tcp=wishes.tcp)
    return Record(Endpoint(socket_directory, port, wishes.tcp), dict(wishes.settings), is_temporary)


def remove_temporary_socket(layout: Layout) -> None:
    record = Record.read(layout.record)
    if record and record.temporary_directory:
        shutil.rmtree(record.temporary_directory, ignore_errors=True)
