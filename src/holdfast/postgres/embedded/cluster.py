"""Postgres's own directory: made once, by a rename, and checked against the binaries ever after."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from holdfast.errors import DataDirectoryError, DataVersionMismatch
from holdfast.postgres.embedded.binaries import Binaries
from holdfast.postgres.embedded.failures import explained, start_failure
from holdfast.postgres.embedded.layout import Layout
from holdfast.postgres.embedded.server_user import ServerUser

SUPERUSER = "postgres"
_UNFINISHED = "data.new-"
_HAS_BUILTIN_LOCALES = 17
# The socket lies in a directory that only its owner may enter; a port is open to everyone on the machine.
_ACCESS = """\
local all         all              trust
local replication all              trust
host  all         all 127.0.0.1/32 scram-sha-256
host  replication all 127.0.0.1/32 scram-sha-256
"""


def ensure_cluster(layout: Layout, binaries: Binaries, user: ServerUser, *, synced: bool) -> None:
    """Leave a complete data directory of the binaries' version, or raise. Call while deciding.

    `synced` waits until new data has reached the disk, which is of no use with fsync off.
    """
    with explained(layout.root):
        _remove_unfinished(layout.root)
        if not layout.data.exists():
            _create(layout, binaries, user, [] if synced else ["--no-sync"])
        found = _version(layout.data)
    if found != str(binaries.major):
        raise DataVersionMismatch(directory=str(layout.data), found=found, binaries=binaries.version)
    user.give_tree(layout.data)


def _version(data: Path) -> str:
    try:
        return (data / "PG_VERSION").read_text("ascii").strip()
    except FileNotFoundError:
        raise DataDirectoryError(
            f"{data} is not a data directory of Postgres (it has no PG_VERSION): move it away to start afresh"
        ) from None


def _create(layout: Layout, binaries: Binaries, user: ServerUser, options: list[str]) -> None:
    # Under another name until it is complete: a process that is killed half-way leaves only rubbish behind.
    new = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=layout.root))
    try:
        user.give(new)
        _initdb(new, layout, binaries, user, options)
        (new / "pg_hba.conf").write_text(_ACCESS, "ascii")
        new.rename(layout.data)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _initdb(new: Path, layout: Layout, binaries: Binaries, user: ServerUser, options: list[str]) -> None:
    command = [binaries.program("initdb"), "-D", str(new), "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8"]
    command += ["--locale=C", "--no-instructions", *options]
    if binaries.major >= _HAS_BUILTIN_LOCALES:
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    done = user.run(command, home=layout.root, stderr=subprocess.STDOUT, detached=False)
    if done.returncode:
        raise start_failure(layout.root, done.stdout.decode("utf-8", "replace"))


def _remove_unfinished(root: Path) -> None:
    for leftover in root.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(leftover, ignore_errors=True)
