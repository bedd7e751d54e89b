"""A folder of `NNNN_name.sql` files as values. Whatever is wrong with it is found before any connection."""

import hashlib
import re
from dataclasses import dataclass
from importlib.resources.abc import Traversable

from holdfast.errors import InvalidMigration

_FILE_NAME = re.compile(r"(\d{4})_([a-z][a-z0-9_]*)\.sql")
_OPENING = re.compile(r"\A(?:[ \t]*(?:--.*)?\n)*")
_MIN_CODE = re.compile(r"^[ \t]*--[ \t]*min_code[ \t]*:(.*)$", re.MULTILINE)
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
# PL/pgSQL's own `begin` is never followed by a semicolon.
_ENDS_TRANSACTION = re.compile(
    r"^[ \t]*(?:begin|commit|rollback|start[ \t]+transaction)(?:[ \t]+(?:work|transaction))?[ \t]*;",
    re.IGNORECASE | re.MULTILINE,
)
_DOLLAR_QUOTED = re.compile(r"(\$\w*\$).*?\1", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step forward. After it, code that knows schema `min_code` or later still works."""

    version: int
    name: str
    source: str
    min_code: int

    def __str__(self) -> str:
        return f"{self.version:04}_{self.name}"

    @property
    def checksum(self) -> str:
        """Of the file's text, not of the text for one schema: the same in every database."""
        return hashlib.sha256(self.source.encode()).hexdigest()


def read_migrations(folder: Traversable) -> tuple[Migration, ...]:
    """Every `.sql` file of a folder, in order. Other files are left alone."""
    migrations: list[Migration] = []
    for file in sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=_file_name):
        previous = migrations[-1] if migrations else None
        migrations.append(_read(file, previous))
    return tuple(migrations)


def _file_name(file: Traversable) -> str:
    return file.name


def _read(file: Traversable, previous: Migration | None) -> Migration:
    named = _FILE_NAME.fullmatch(file.name)
    if named is None:
        raise InvalidMigration(file.name, "not a name for a migration: write NNNN_name.sql in a-z, 0-9, _")
    version, next_version = int(named[1]), previous.version + 1 if previous else 1
    if previous and version == previous.version:
        raise InvalidMigration(file.name, f"{previous}.sql has the same number: renumber one of the two")
    if version != next_version:
        raise InvalidMigration(file.name, f"the number {next_version:04} is missing before it")
    source = _text(file)
    return Migration(version, named[2], source, _min_code(file.name, source, version, previous))


def _text(file: Traversable) -> str:
    try:
        # A checkout with other line endings is the same migration.
        source = file.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidMigration(file.name, f"not UTF-8: {error.reason} at byte {error.start}") from None
    statements = _COMMENTS.sub("", source)
    if not statements.strip("; \t\n"):
        raise InvalidMigration(file.name, "holds no statement")
    if ending := _ENDS_TRANSACTION.search(_DOLLAR_QUOTED.sub("", statements)):
        raise InvalidMigration(
            file.name, f"{ending[0].strip()!r} would break the one transaction that all migrations run in"
        )
    return source


def _min_code(file: str, source: str, version: int, previous: Migration | None) -> int:
    inherited = previous.min_code if previous else 1
    opening = _OPENING.match(source)
    declared = _MIN_CODE.findall(opening[0]) if opening else []
    if not declared:
        return inherited
    if len(declared) > 1:
        raise InvalidMigration(file, "declares min_code more than once")
    text = declared[0].strip()
    if not (text.isascii() and text.isdigit() and inherited <= int(text) <= version):
        allowed = f"{inherited} to {version}" if inherited < version else f"{version}"
        raise InvalidMigration(file, f"min_code is {text!r}: write a number, here {allowed}")
    return int(text)
