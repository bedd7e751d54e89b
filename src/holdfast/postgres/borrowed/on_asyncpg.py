"""On a connection of asyncpg, bare or lent by its pool."""

from collections.abc import Sequence
from typing import Protocol

import asyncpg

from holdfast.errors import WrongConnection
from holdfast.postgres.borrowed.kinds import closed, described
from holdfast.postgres.borrowed.values import Rows, for_asyncpg
from holdfast.postgres.statement import Statement


class AsyncpgConnection(Protocol):
    """What is used of asyncpg, which ships no types."""

    def is_closed(self) -> bool: ...

    async def fetch(
        self, query: str, /, *args: object, record_class: type[object]
    ) -> Sequence[Sequence[object]]: ...


async def fetch(connection: AsyncpgConnection, statement: Statement[object]) -> Rows:
    _check(connection)
    text, values = for_asyncpg(statement)
    # The caller's record class may iterate in a way of its own.
    return await connection.fetch(text, *values, record_class=asyncpg.Record)


def _check(connection: AsyncpgConnection) -> None:
    try:
        is_closed = connection.is_closed()
    except asyncpg.InterfaceError as error:
        raise WrongConnection(
            f'{described(connection)} was given back to its pool: use it inside its "async with"'
        ) from error
    if is_closed:
        raise closed(connection)
