"""What lies where in the directory of an embedded server, and the making of that directory."""

from dataclasses import dataclass
from pathlib import Path

from holdfast.postgres.embedded.failures import explained
from holdfast.postgres.embedded.server_user import ServerUser

DEFAULT_DIRECTORY = ".holdfast"


@dataclass(frozen=True, slots=True)
class Layout:
    """Names only; nothing here looks at the disk until `make` is called."""

    root: Path

    @property
    def data(self) -> Path:
        """Postgres's own files. It appears complete, by a rename, or not at all."""
        return self.root / "data"

    @property
    def socket(self) -> Path:
        return self.root / "socket"

    @property
    def log(self) -> Path:
        return self.root / "postgres.log"

    @property
    def record(self) -> Path:
        """How the running server was started."""
        return self.root / "server.json"

    @property
    def password(self) -> Path:
        return self.root / "password"

    @property
    def decision_lock(self) -> Path:
        """Held by the process that decides about starting or stopping."""
        return self.root / "decision.lock"

    @property
    def users_lock(self) -> Path:
        """Held in shared mode by every user of the server, for as long as it uses it."""
        return self.root / "users.lock"

    @property
    def server_lock(self) -> Path:
        """Held by the processes of Postgres themselves, which inherit it without knowing of it."""
        return self.root / "server.lock"

    def make(self) -> None:
        with explained(self.root):
            created = _make_directory(self.root)
            # A directory that already holds something may be part of someone's project: hide nothing of it.
            if not any(self.root.iterdir()):
                (self.root / ".gitignore").write_text("*\n", "utf-8")
            if created:
                ServerUser.for_server(self.root).give(self.root)

    def give(self, user: ServerUser) -> None:
        """Hand over what root made here, so that the owner of the data can go on without root."""
        ours = (self.log, self.record, self.password, self.decision_lock, self.users_lock, self.server_lock)
        for path in ours:
            if path.exists():
                user.give(path)


def _make_directory(path: Path) -> bool:
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if not path.is_dir():
            raise
        return False
    return True
