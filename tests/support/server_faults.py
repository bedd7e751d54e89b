"""Faults of an embedded server: stopped, restarted; socket, port and data stay the same."""

import signal

from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.embedded.postmaster import Postmaster, StopMode
from holdfast.postgres.embedded.processes import send
from holdfast.postgres.embedded.record import Record
from holdfast.postgres.embedded.starting import Wishes, start
from holdfast.postgres.embedded.usage import deciding
from support.waiting import block_until


def restart(server: EmbeddedServer, mode: StopMode = "immediate") -> None:
    """Stop Postgres under its users and start it again. `immediate` is a crash with its recovery."""
    stop_now(server, mode)
    start_again(server)


def stop_now(server: EmbeddedServer, mode: StopMode = "immediate") -> None:
    """Stop Postgres although processes use it. They stay counted as its users."""
    with deciding(server._layout):
        Postmaster(server._layout).stop(mode)


def kill(server: EmbeddedServer) -> None:
    """SIGKILL to the postmaster. Its children notice by themselves, a little later."""
    pid = server.pid
    assert pid is not None, "no server is running"
    send(pid, signal.SIGKILL)
    block_until(lambda: not server.is_running(), f"process {pid} dies of a SIGKILL", within=10)


def start_again(server: EmbeddedServer) -> None:
    """Start Postgres where it was, as it was."""
    layout = server._layout
    with deciding(layout):
        record = Record.read(layout.record)
        assert record is not None, "the server was never started"
        forced = None if record.has_temporary_socket else record.endpoint.socket_directory
        wishes = Wishes(record.settings, tcp=record.endpoint.has_tcp, socket_directory=forced)
        endpoint = start(layout, wishes, record)
        assert endpoint == record.endpoint, "another program took the port in the meantime"
