"""The operating system's user that Postgres runs as. It refuses root; no permissions are loosened for that.

An ordinary user runs it under the same account. Root runs it as the owner of the data, or, where root owns
the data, in a user namespace in which root goes by another number; where namespaces are refused, as `nobody`.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import OutOfReach

_NOBODY = 65534
_ROOT = 0


@dataclass(frozen=True, slots=True)
class ServerUser:
    """How to start a program of Postgres's: behind a prefix, or with the rights of another user."""

    prefix: tuple[str, ...] = ()
    user: int | None = None
    group: int | None = None

    @classmethod
    def for_server(cls, owned: Path) -> "ServerUser":
        """For a server whose data is at this path, or will be made below it."""
        if os.geteuid() != _ROOT:
            return cls(prefix=_name_for(os.geteuid()))
        owner = owned.stat()
        if owner.st_uid != _ROOT:
            return cls(_name_for(owner.st_uid), owner.st_uid, owner.st_gid)
        if namespace := _namespace():
            return cls(prefix=namespace)
        nobody = pwd.getpwnam("nobody")
        return cls(user=nobody.pw_uid, group=nobody.pw_gid)

    @property
    def name(self) -> str:
        number = os.geteuid() if self.user is None else self.user
        return _name_of(number) or f"user {number}"

    def give(self, path: Path) -> None:
        """Make it the owner of something that we made for it."""
        if self.user is not None:
            os.chown(path, self.user, -1 if self.group is None else self.group, follow_symlinks=False)

    def give_tree(self, top: Path) -> None:
        if self.user is None or top.stat().st_uid == self.user:
            return
        for folder, _, names in os.walk(top):
            for name in names:
                self.give(Path(folder, name))
            self.give(Path(folder))

    def run(
        self, command: Sequence[str], *, home: Path, stderr: int, pass_fds: Sequence[int] = (), detached: bool
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program to its end, with a clean environment and in a directory that all can read."""
        return subprocess.run(  # noqa: S603 - programs of Postgres, from where it was found
            [*self.prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd="/",
            env=_environment(home),
            pass_fds=pass_fds,
            start_new_session=detached,
            user=self.user,
            group=self.group,
            extra_groups=None if self.user is None else [],
            check=False,
        )

    def require_reach(self, *paths: Path) -> None:
        """Say what is closed to the user that root becomes: nothing is opened for that user."""
        if self.user is None:
            return
        for path in paths:
            real = path.resolve()
            for step in (*reversed(real.parents), real):
                if not self._may_enter(step):
                    raise OutOfReach(str(path), closed=str(step), user=self.name)

    def _may_enter(self, path: Path) -> bool:
        status = path.stat()
        if status.st_uid == self.user:
            return bool(status.st_mode & 0o100)
        return bool(status.st_mode & (0o010 if status.st_gid == self.group else 0o001))


def _name_of(number: int) -> str | None:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return None


def _name_for(number: int) -> tuple[str, ...]:
    """A prefix that lends the name `nobody` to a user without one, as in containers: initdb asks for it."""
    return () if _name_of(number) else _namespace()


def _namespace() -> tuple[str, ...]:
    """The prefix that gives root another number, or nothing where the system refuses it."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    prefix = (unshare, "-U", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}")
    probe = subprocess.run(  # noqa: S603 - unshare, from PATH
        [*prefix, "true"], capture_output=True, check=False, cwd="/"
    )
    return prefix if probe.returncode == 0 else ()


def _environment(home: Path) -> dict[str, str]:
    # Variables like PGDATA, PGPORT and PGOPTIONS are meant for other servers; messages are read by us.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return kept | {"HOME": str(home), "LC_ALL": "C", "TZ": "UTC"}
