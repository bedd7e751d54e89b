"""The text of each step of a migration: the runner executes exactly what the script prints."""

from datetime import datetime, timedelta

from holdfast.postgres.migrations.migration import Migration
from holdfast.postgres.migrations.version import SQL
from holdfast.postgres.schema import Schema


def settings(lock_timeout: timedelta) -> str:
    milliseconds = max(1, lock_timeout // timedelta(milliseconds=1))  # 0 would mean to wait for ever
    return _read("settings").format(lock_timeout=f"{milliseconds}ms")


def lock(schema: Schema) -> str:
    return schema.fill(_read("lock"))


def bootstrap(schema: Schema) -> str:
    return schema.fill(_read("bootstrap"))


def guard(schema: Schema, version: int) -> str:
    return schema.fill(_read("guard")).format(version=version)


def change(schema: Schema, migration: Migration) -> str:
    text = schema.fill(migration.source).rstrip()
    return text if text.endswith(";") else f"{text}\n;"


def record(schema: Schema, migration: Migration, now: datetime | None = None) -> str:
    """The names of files are checked when they are read, so that they are safe as literals.

    Without `now` it has the server's time when it runs.
    """
    return schema.fill(_read("record")).format(
        version=migration.version,
        name=migration.name,
        checksum=migration.checksum,
        min_code=migration.min_code,
        now=f"'{now.isoformat()}'" if now else "null",
    )


def list_applied(schema: Schema) -> str:
    return schema.fill(_read("list_applied"))


def _read(name: str) -> str:
    return (SQL / f"{name}.sql").read_text("utf-8")
