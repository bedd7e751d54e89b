"""A real pgbouncer in front of a test's database, in the mode that the test asks for."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from support.waiting import block_until

_CONFIGURATION = """\
[databases]
* = {target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {pool_size}
server_round_robin = {round_robin}
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
log_connections = 0
log_disconnections = 0
"""


@contextmanager
def pgbouncer(dsn: str, mode: str, *, pool_size: int = 20, round_robin: bool = False) -> Iterator[str]:
    """The DSN of the same database behind a pgbouncer. As it refuses to run as root, root runs it
    as the user nobody.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.fail("pgbouncer is not installed: run scripts/install-machine-tools")
    parts = conninfo_to_dict(dsn)
    target = " ".join(
        f"{name}={parts[name]}" for name in ("host", "port", "user", "password") if name in parts
    )
    directory, port = Path(tempfile.mkdtemp(prefix="pgbouncer-")), _free_port()
    directory.chmod(0o755)
    (directory / "pgbouncer.ini").write_text(
        _CONFIGURATION.format(
            target=target, port=port, mode=mode, pool_size=pool_size, round_robin=int(round_robin)
        )
    )
    user = "nobody" if os.geteuid() == 0 else None
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, str(directory / "pgbouncer.ini")], stdout=log, stderr=log, user=user
        )
    try:
        front = make_conninfo(dsn, host="127.0.0.1", port=port)
        _wait_until_it_answers(front, process, directory / "log")
        yield front
    finally:
        process.kill()
        process.wait(10)
        shutil.rmtree(directory)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_until_it_answers(dsn: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    def answers() -> bool:
        assert process.poll() is None, f"pgbouncer did not start: {log.read_text()}"
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            return False
        return True

    block_until(answers, lambda: f"pgbouncer answers: {log.read_text()}", within=10)
