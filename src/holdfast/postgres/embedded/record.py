"""How the server was started last; written before each start, for processes that join or start it later."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.postgres.embedded.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Record:
    endpoint: Endpoint
    settings: Mapping[str, str] = field(default_factory=dict)
    has_temporary_socket: bool = False

    @property
    def temporary_directory(self) -> Path | None:
        return self.endpoint.socket_directory if self.has_temporary_socket else None

    def write(self, path: Path) -> None:
        text = json.dumps(
            {
                "directory": str(path.parent),
                "socket_directory": str(self.endpoint.socket_directory),
                "port": self.endpoint.port,
                "tcp": self.endpoint.has_tcp,
                "settings": dict(self.settings),
                "temporary_socket": self.has_temporary_socket,
            }
        )
        new = path.with_suffix(".new")
        new.write_text(text, "utf-8")
        new.replace(path)

    @classmethod
    def read(cls, path: Path) -> "Record | None":
        """The last start's, or None where there was none. A damaged one counts as none: it is rewritten."""
        try:
            known = json.loads(path.read_text("utf-8"))
            endpoint = Endpoint(Path(known["socket_directory"]), int(known["port"]), bool(known["tcp"]))
            settings = {str(name): str(value) for name, value in known["settings"].items()}
            # In a copy of the directory, the temporary socket is still the original's.
            has_temporary_socket = known["temporary_socket"] and known["directory"] == str(path.parent)
            return cls(endpoint, settings, bool(has_temporary_socket))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None
