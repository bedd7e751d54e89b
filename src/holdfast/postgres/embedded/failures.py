"""What the operating system and Postgres complain about, told as errors that say what to do."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import DataDirectoryError, DiskFull, EmbeddedError, ServerStartFailed

_FULL = ("No space left on device", "Disk quota exceeded")
_TAIL_BYTES = 4_000
_LEAST_BYTES = 100_000


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Around our own work on files in the directory."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFull(str(directory)) from error
        place = error.filename or directory
        raise DataDirectoryError(
            f"{directory} cannot hold a database ({place}: {error.strerror}): choose a directory that this "
            "user may create and write to"
        ) from error


def start_failure(directory: Path, output: str) -> EmbeddedError:
    """The error for a Postgres program that ended with this output."""
    # Memory shared between processes is not on the disk that holds the data.
    lines = [line for line in output.splitlines() if "shared memory" not in line]
    # On a full disk the log is cut short too, and may not say why.
    if any(sign in line for sign in _FULL for line in lines) or _free_bytes(directory) < _LEAST_BYTES:
        return DiskFull(str(directory))
    return ServerStartFailed(str(directory), log_tail=output.strip()[-_TAIL_BYTES:])


def _free_bytes(directory: Path) -> int:
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return _LEAST_BYTES


def log_since(log: Path, offset: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(offset, file.seek(0, 2) - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError as error:
        return f"(the log cannot be read: {error.strerror})"
