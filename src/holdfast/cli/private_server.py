"""The private server that `holdfast dev` keeps while its worker process is replaced."""

import asyncio
import os
from pathlib import Path

from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.embedded.layout import DEFAULT_DIRECTORY
from holdfast.settings import VARIABLE, Embedded, read_target


def private_directory() -> Path:
    """Where HOLDFAST_DSN says, or in this directory."""
    target = read_target(os.environ.get(VARIABLE, "embedded"))
    return Path(target.directory if isinstance(target, Embedded) else DEFAULT_DIRECTORY).resolve()


class PrivateServer:
    """A use of it beside that of the worker process. Whoever leaves last stops it, so if this process is
    killed, the worker process does.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._server: EmbeddedServer | None = None

    async def take(self) -> None:
        if self._server is None:
            self._server = await asyncio.to_thread(EmbeddedServer.start, self._directory)

    async def drop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.stop)
