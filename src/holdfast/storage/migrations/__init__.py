"""The migrations that this release brings along, and so the schema version that its code knows."""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from holdfast.postgres.migrations.migration import Migration, read_migrations

FOLDER: Traversable = files(__name__)


@cache
def packaged() -> tuple[Migration, ...]:
    return read_migrations(FOLDER)


def known_version() -> int:
    """The newest migration that this code knows: what `judge` is asked with."""
    return len(packaged())
