"""What an error of the caller's own driver says: the SQLSTATE under its wrappings, and what to do when it is
about our schema: the connection is to another database, to one that was not migrated, or of a role without
rights. There the driver itself cannot say what to do.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.postgres.schema import schema_error
from holdfast.postgres.statement import Statement

_DEPTH = 5


@contextmanager
def explained(statement: Statement[object]) -> Iterator[None]:
    """Raise what to do in place of a driver's error about our schema; let every other error through."""
    try:
        yield
    except Exception as error:
        sqlstate, reason = told(error)
        if sqlstate is None or statement.schema is None:
            raise
        if meaning := schema_error(sqlstate, reason, statement.schema):
            raise meaning from error
        raise


def told(error: BaseException) -> tuple[str | None, str]:
    """The code of Postgres and its sentence, from under the wrappings of SQLAlchemy (`orig`) and Django."""
    current: BaseException | None = error
    for _ in range(_DEPTH):
        if current is None:
            break
        # psycopg2 says pgcode, everybody else sqlstate.
        code = getattr(current, "sqlstate", None) or getattr(current, "pgcode", None)
        if code is not None:
            return code, str(current).strip().partition("\n")[0]
        current = getattr(current, "orig", None) or current.__cause__
    return None, ""
