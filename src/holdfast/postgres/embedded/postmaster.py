"""The running Postgres as a process: find it, start it, signal it, wait for its end.

Two files tell whether it runs. `postmaster.pid` names the process to signal, but after a kill -9 that may be
a zombie, no process, or another program that got the number. Every process of the server inherits the lock on
`server.lock`: when it is free, no process is left that could still write to the data.
"""

import logging
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast.errors import EmbeddedError, ServerStartFailed
from holdfast.postgres.embedded.binaries import Binaries
from holdfast.postgres.embedded.endpoint import Endpoint
from holdfast.postgres.embedded.failures import log_since, start_failure
from holdfast.postgres.embedded.layout import Layout
from holdfast.postgres.embedded.locks import is_held, opened
from holdfast.postgres.embedded.processes import is_postgres_of, processes_of, send
from holdfast.postgres.embedded.server_user import ServerUser

StopMode = Literal["smart", "fast", "immediate"]

_log = logging.getLogger("holdfast.postgres.embedded")
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_POLL_SECONDS = 0.02
_STOP_SECONDS = 30.0
_ORPHAN_SECONDS = 10.0
_LOG_LIMIT = 10_000_000
_STATUS_LINE = 7
_SERVES = ("ready", "standby")
# The shell goes away at once, so that Postgres is not our child: the process that started it may end, or
# die, without leaving a zombie. Standard error is the log.
_DETACH = '"$@" >&2 & echo $!'
_OCCUPIED = (
    "(processes of a server that was killed, or of one in another container, are still at work on the data)"
)


@dataclass(frozen=True, slots=True)
class Postmaster:
    layout: Layout

    @property
    def pid(self) -> int | None:
        """The process id of the running server, or None."""
        lines = self._pid_file()
        if not lines or not lines[0].strip().isdigit():
            return None
        pid = int(lines[0])
        return pid if is_postgres_of(pid, self.layout.data) else None

    @property
    def is_gone(self) -> bool:
        """No process of the server is left, not even one that outlived its parent."""
        return not is_held(self.layout.server_lock) and self.pid is None

    def launch(
        self, binaries: Binaries, user: ServerUser, endpoint: Endpoint, settings: Mapping[str, str]
    ) -> int:
        """Start it without waiting. Returns where in the log its words begin."""
        self._clear_remains(endpoint)
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [
            binaries.program("postgres"),
            "-D",
            str(self.layout.data),
            "-p",
            str(endpoint.port),
            *options,
        ]
        command += ["-c", f"listen_addresses={endpoint.listen_addresses}"]
        command += ["-c", f"unix_socket_directories={endpoint.unix_socket_directories}"]
        command += ["-c", "unix_socket_permissions=0700"]
        offset = self._rotate_log()
        with self.layout.log.open("ab") as log, opened(self.layout.server_lock) as alive:
            alive.take_shared_within(_ORPHAN_SECONDS)
            done = user.run(
                ["/bin/sh", "-c", _DETACH, "sh", *command],
                home=self.layout.root,
                stderr=log.fileno(),
                pass_fds=[alive.descriptor],
                detached=True,
            )
        if done.returncode:
            raise start_failure(self.layout.root, log_since(self.layout.log, offset))
        return offset

    def wait_until_ready(self, seconds: float, *, log_offset: int) -> None:
        deadline = time.monotonic() + seconds
        while not self._serves():
            is_late = time.monotonic() > deadline
            if is_late or self.is_gone:
                output = log_since(self.layout.log, log_offset)
                if is_late:
                    output += f"\n(it did not answer within {seconds:g} s)"
                raise start_failure(self.layout.root, output)
            time.sleep(min(_POLL_SECONDS, max(deadline - time.monotonic(), 0.0)))

    def stop(self, mode: StopMode) -> None:
        """Ask it to end and wait until it has. A server that will not end in time is ended at once."""
        if self._end(_SIGNALS[mode], _STOP_SECONDS):
            return
        _log.warning("Postgres in %s did not stop within %g s: ending it", self.layout.root, _STOP_SECONDS)
        for number in (signal.SIGQUIT, signal.SIGKILL):
            if self._end(number, _ORPHAN_SECONDS):
                return
        raise EmbeddedError(f"Postgres in {self.layout.root} does not stop on any signal")

    def _serves(self) -> bool:
        lines = self._pid_file()
        return len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() in _SERVES and self.pid is not None

    def _pid_file(self) -> list[str]:
        return _lines(self.layout.data / "postmaster.pid")

    def _clear_remains(self, endpoint: Endpoint) -> None:
        """After a kill -9: end what outlived the postmaster, then drop the files that name it.

        Postgres would drop them itself, but not while a zombie or a stranger has the number.
        """
        if not self._end(signal.SIGQUIT, _ORPHAN_SECONDS):
            raise ServerStartFailed(str(self.layout.root), log_tail=_OCCUPIED)
        (self.layout.data / "postmaster.pid").unlink(missing_ok=True)
        self._clear_socket(endpoint)

    def _clear_socket(self, endpoint: Endpoint) -> None:
        lock = endpoint.socket_directory / f".s.PGSQL.{endpoint.port}.lock"
        lines = _lines(lock)
        # In a directory that the user chose, another server may be at home.
        if endpoint.socket_directory == self.layout.socket or str(self.layout.data) in lines:
            lock.unlink(missing_ok=True)
            lock.with_suffix("").unlink(missing_ok=True)

    def _end(self, number: signal.Signals, seconds: float) -> bool:
        """Signal the postmaster, or those who outlived it, until none is left; repeating does no harm.

        A server in its first instants has no pid file and ignores signals: it is met in a later round.
        """
        deadline = time.monotonic() + seconds
        while not self.is_gone:
            if time.monotonic() > deadline:
                return False
            if (pid := self.pid) is not None:
                send(pid, number)
            else:
                for orphan in processes_of(self.layout.data):
                    send(orphan, signal.SIGQUIT if number != signal.SIGKILL else number)
            time.sleep(_POLL_SECONDS)
        return True

    def _rotate_log(self) -> int:
        log: Path = self.layout.log
        if log.exists() and log.stat().st_size > _LOG_LIMIT:
            log.replace(log.with_suffix(".log.1"))
        return log.stat().st_size if log.exists() else 0


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
