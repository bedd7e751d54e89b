"""Processes seen from outside: whose they are, whether they live. A zombie does not."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_HAS_PROC = (_PROC / "self" / "stat").exists()
_DEAD = "ZXx"


def is_postgres_of(pid: int, data: Path) -> bool:
    """Whether this number belongs to a living Postgres on this data, and not to a later process."""
    if _HAS_PROC:
        return _is_postgres_in_proc(_PROC / str(pid), data)
    return _is_postgres_in_ps(pid, data)


def processes_of(data: Path) -> list[int]:
    """All living processes of a server on this data; none where the system does not tell."""
    if not _HAS_PROC:
        return []
    numbers = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
    return [pid for pid in numbers if _is_postgres_in_proc(_PROC / str(pid), data)]


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_postgres_in_proc(process: Path, data: Path) -> bool:
    try:
        # "pid (name) state ...": a name may hold spaces and brackets, so the last bracket ends it.
        name, _, rest = (process / "stat").read_text("utf-8", "replace").rpartition(")")
        if rest.split()[0] in _DEAD or name.partition("(")[2] != "postgres":
            return False
        # Every process of a server works in its data directory, whatever that directory is called by now.
        return (process / "cwd").samefile(data)
    except PermissionError:
        return os.fsencode(data) in (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _is_postgres_in_ps(pid: int, data: Path) -> bool:
    answer = subprocess.run(  # noqa: S603 - a number is all that varies
        ["/bin/ps", "-ww", "-o", "stat=,command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, command = answer.stdout.strip().partition(" ")
    return state[:1] not in _DEAD and "postgres" in command and f"-D {data}" in command
