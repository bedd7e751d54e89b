"""What a worker asks before it starts: one select, no lock, no right to change anything.

with explained(schema, known=known):
found = await run(read_version(schema))    # or without await
judge(found, known=known, schema=schema.name)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

import psycopg

from holdfast.domain.schema_version import SchemaVersion
from holdfast.errors import DatabaseError, MissingPrivilege, SchemaError, SchemaNotFound, SchemaOutdated
from holdfast.postgres.schema import Schema, schema_error
from holdfast.postgres.sqlstate import FORBIDDEN, NO_COLUMN, NO_TABLE
from holdfast.postgres.statement import Statement, StatementFile

SQL = files("holdfast.postgres.migrations") / "sql"


def _version(version: int, min_code: int, base: str | bytes | None) -> SchemaVersion:
    # psycopg gives the texts of a SQL_ASCII database as bytes.
    return SchemaVersion(version, min_code, base.decode() if isinstance(base, bytes) else base)


_READ_VERSION = StatementFile.read(SQL, "read_version", _version, is_repeatable=True)


def read_version(schema: Schema) -> Statement[SchemaVersion]:
    return _READ_VERSION.with_params(schema)


def refusal(sqlstate: str | None, message: str, *, schema: Schema, known: int) -> SchemaError | None:
    """What it means that `read_version` failed, or None when it says nothing about the schema."""
    if sqlstate in NO_TABLE:
        return SchemaOutdated(found=0, needed=known, schema=schema.name)
    if sqlstate == FORBIDDEN:
        return schema_error(sqlstate, message, schema)
    if sqlstate == NO_COLUMN:
        return SchemaError(
            f"{schema.quoted}.migration is a table of another program ({message}): choose another schema name"
        )
    return None


@contextmanager
def explained(schema: Schema, *, known: int) -> Iterator[None]:
    """Turn a failure of `read_version`, as psycopg raises it or as our own error, into what to do."""
    try:
        yield
    except psycopg.Error as error:
        if meaning := refusal(error.sqlstate, primary_message(error), schema=schema, known=known):
            raise meaning from error
        raise
    except DatabaseError as error:
        message = error.reason if isinstance(error, (SchemaNotFound, MissingPrivilege)) else str(error)
        if meaning := refusal(error.sqlstate, message, schema=schema, known=known):
            raise meaning from error
        raise


def primary_message(error: psycopg.Error) -> str:
    """Postgres' own sentence without the position and the lines around it."""
    return error.diag.message_primary or str(error).strip() or type(error).__name__
