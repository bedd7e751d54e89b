"""A private Postgres in a directory: found, initialised, started, shared and stopped. Knows no jobs."""

from holdfast.postgres.embedded.binaries import Binaries, find_binaries
from holdfast.postgres.embedded.server import EmbeddedServer

__all__ = ["Binaries", "EmbeddedServer", "find_binaries"]
