"""What a reply holds."""

from collections.abc import Sequence
from typing import TypeGuard, TypeVar

from psycopg.pq.abc import PGresult

from holdfast.errors import StatementFailed
from holdfast.postgres.statement import Statement

T = TypeVar("T")


def has_rows(reply: PGresult | None) -> TypeGuard[PGresult]:
    """Whether a reply is a table, if only an empty one. Asking for its description would make an object for
    each column.
    """
    return reply is not None and reply.nfields > 0


def the_one(statement: Statement[T], results: Sequence[T]) -> T:
    if len(results) != 1:
        raise StatementFailed(f"{statement.name}: one row was expected, {len(results)} came")
    return results[0]
