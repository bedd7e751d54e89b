"""Folders of small migrations, made up for one test."""

from collections.abc import Mapping
from pathlib import Path

from holdfast.postgres.migrations.migration import Migration, read_migrations
from holdfast.postgres.schema import Schema

TRIAL = Schema("trial")

NOTES = "create table {schema}.note (id int primary key, body text);\n"
ROWS = "insert into {schema}.note values (1, 'first');\n"


def folder(path: Path, files: Mapping[str, str]) -> Path:
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / name).write_bytes(text.encode())
    return path


def migrations(path: Path, *texts: str) -> tuple[Migration, ...]:
    """`texts` as 0001_step.sql, 0002_step.sql and so on."""
    return read_migrations(
        folder(path, {f"{number:04}_step.sql": text for number, text in enumerate(texts, 1)})
    )
