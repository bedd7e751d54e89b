"""Finds out what sits between Holdfast and Postgres, since a transaction-mode pooler breaks prepared
statements, session settings and LISTEN, the last without any error.

A pooler invents the process number that it gives to a client, so a connection whose number is its backend's
own is direct. In session mode a client keeps one backend, which no other client has; in transaction mode
neither holds: most poolers hand out the backend that was used last. So a few clients ask in turn which
backend they have. One client that sees two, or two clients that see the same, prove transaction mode.
Several processes of a pooler behind one address have a pool each: hence more than two clients.
"""

import logging
from contextlib import AsyncExitStack
from enum import Enum
from typing import assert_never

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from holdfast.postgres.reply_timeouts import replies_within

logger = logging.getLogger("holdfast.postgres")

_CLIENTS = 4
_PATIENCE = 2  # seconds


class PoolerMode(Enum):
    DIRECT = "no pooler"
    SESSION_POOLER = "a session-mode pooler"
    TRANSACTION_POOLER = "a transaction-mode pooler"

    @property
    def keeps_sessions(self) -> bool:
        """Whether what is set or prepared on a connection is still there at its next statement."""
        return self is not PoolerMode.TRANSACTION_POOLER


async def find_pooler(conninfo: str) -> PoolerMode:
    """Look at a fresh connection, and behind a pooler at some more. Raises only if there is not even one.

    Bounded: a pooler that has no backend for another client is taken for one in transaction mode. That is
    the safe side, since what works there works everywhere.
    """
    async with await _connect(conninfo) as first:
        try:
            if await _backend(first) == first.info.backend_pid:
                return PoolerMode.DIRECT
            is_shared = await _is_shared(first, make_conninfo(conninfo, connect_timeout=_PATIENCE))
        except psycopg.Error:
            is_shared = True
    return PoolerMode.TRANSACTION_POOLER if is_shared else PoolerMode.SESSION_POOLER


def tell(pooler: PoolerMode, where: str) -> None:
    match pooler:
        case PoolerMode.DIRECT:
            pass
        case PoolerMode.SESSION_POOLER:
            logger.info("%s is behind a session-mode pooler", where)
        case PoolerMode.TRANSACTION_POOLER:
            logger.warning(
                "%s is behind a transaction-mode pooler: no prepared statements, no LISTEN; polling", where
            )
        case _:
            assert_never(pooler)


async def _is_shared(first: psycopg.AsyncConnection[TupleRow], conninfo: str) -> bool:
    """Whether backends are seen to wander between clients."""
    async with AsyncExitStack() as stack:
        clients, seen = [first], {first: await _backend(first)}
        for _ in range(_CLIENTS - 1):
            client = await stack.enter_async_context(await _connect(conninfo))
            seen[client] = await _backend(client)
            if len(set(seen.values())) < len(seen):
                return True
            clients.append(client)
        # A pooler that hands out backends in rotation would answer the same order with the same backends.
        for client in (*reversed(clients), *clients[1:], clients[0], clients[0]):
            if await _backend(client) != seen[client]:
                return True
        return False


async def _connect(conninfo: str) -> psycopg.AsyncConnection[TupleRow]:
    return await psycopg.AsyncConnection.connect(conninfo, autocommit=True, prepare_threshold=None)


async def _backend(client: psycopg.AsyncConnection[TupleRow]) -> int:
    with replies_within(client, _PATIENCE):
        cursor = await client.execute("select pg_backend_pid()")
        row = await cursor.fetchone()
    return int(row[0]) if row else 0
