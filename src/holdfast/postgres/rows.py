"""From the rows of a reply to what the statement promised."""

from collections.abc import Sequence
from typing import TypeVar

from psycopg.rows import TupleRow

from holdfast.errors import StatementFailed
from holdfast.postgres.statement import Statement

T = TypeVar("T")


def decoded(statement: Statement[T], rows: Sequence[TupleRow]) -> list[T]:
    return [statement.decode(*row) for row in rows]


def the_one(statement: Statement[T], results: Sequence[T]) -> T:
    if len(results) != 1:
        raise StatementFailed(f"{statement.name}: one row was expected, {len(results)} came")
    return results[0]
