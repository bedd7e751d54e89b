"""A block that commits when it ends, on a connection of the worker: in two round trips beside those of the
handler's own statements.
"""

from collections.abc import Callable
from types import TracebackType

import psycopg
from psycopg.rows import TupleRow

from holdfast.postgres.statement import Statement
from holdfast.postgres.thread_transactions import ThreadTransaction
from holdfast.postgres.whole_transaction import WholeTransaction
from holdfast.worker.committing_block import OpenBlock

Last = Callable[[], Statement[object]]
"""Makes the statement that is sent along with the commit, and that fails if nothing may be committed. Asked
when the block has ended; raises if it is known by then that nothing may be.
"""


class OwnBlock:
    """`on_outage` is called if the block has raised and its connection or its server failed."""

    def __init__(self, transaction: WholeTransaction, last: Last, on_outage: Callable[[], None]) -> None:
        self._transaction = transaction
        self._last = last
        self._on_outage = on_outage

    async def __aenter__(self) -> psycopg.AsyncConnection[TupleRow]:
        connection = await self._transaction.begin()
        self._open = OpenBlock()
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
        if error is not None:
            if await self._transaction.roll_back(error):
                self._on_outage()
            return
        try:
            last = self._last()
        except BaseException as refused:
            await self._transaction.roll_back(refused)
            raise
        await self._transaction.commit(last)


class OwnBlockingBlock:
    """The same for a plain function."""

    def __init__(self, transaction: ThreadTransaction, last: Last, on_outage: Callable[[], None]) -> None:
        self._transaction = transaction
        self._last = last
        self._on_outage = on_outage

    def __enter__(self) -> psycopg.Connection[TupleRow]:
        connection = self._transaction.begin()
        self._open = OpenBlock()
        return connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
        if error is not None:
            if self._transaction.roll_back(error):
                self._on_outage()
            return
        try:
            last = self._last()
        except BaseException as refused:
            self._transaction.roll_back(refused)
            raise
        self._transaction.commit(last)
