"""When Postgres does not know what a statement of ours names: the connection is to another database, or to
one that has not been migrated. The one failure in which the caller's driver cannot tell him what to do.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import MissingPrivilege, SchemaError, SchemaNotFound
from holdfast.postgres.schema import NOT_FOUND, Schema
from holdfast.postgres.statement import Statement

_FORBIDDEN = "42501"
_DEPTH = 5


@contextmanager
def explained(statement: Statement[object]) -> Iterator[None]:
    """Raise what to do in place of a driver's error about our schema; let every other error through."""
    try:
        yield
    except Exception as error:
        sqlstate, reason = _told(error)
        if sqlstate is not None and (meaning := _misfit(sqlstate, reason, statement.schema)):
            raise meaning from error
        raise


def _misfit(sqlstate: str, reason: str, schema: Schema | None) -> SchemaError | None:
    if schema is None:
        return None
    if sqlstate in NOT_FOUND:
        return SchemaNotFound(schema=schema.name, reason=reason, sqlstate=sqlstate)
    if sqlstate == _FORBIDDEN:
        remedy = f"its owner must grant usage on schema {schema.quoted} and rights on all that is in it"
        return MissingPrivilege(schema=schema.name, reason=reason, remedy=remedy)
    return None


def _told(error: BaseException) -> tuple[str | None, str]:
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
