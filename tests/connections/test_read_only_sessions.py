"""A session that is read-only, as after a failover, is not lent again, no matter which statement met that."""

from contextlib import suppress

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database


def set_read_only(dsn: str, value: str) -> None:
    name = sql.Identifier(str(conninfo_to_dict(dsn)["dbname"]))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set default_transaction_read_only = off")
        connection.execute(
            sql.SQL("alter database {} set default_transaction_read_only = {}").format(name, sql.SQL(value))
        )


WRITE = b"create table written ()"


async def test_what_a_callers_own_statement_met_is_no_session_for_the_next(dsn: str) -> None:
    set_read_only(dsn, "on")
    async with Database(dsn) as database:
        with suppress(KeyError):
            async with database.transaction() as transaction:
                with suppress(psycopg.errors.ReadOnlySqlTransaction):
                    await transaction.connection.execute(WRITE)
                set_read_only(dsn, "off")
                raise KeyError("the caller's own")
        async with database.transaction() as transaction:
            await transaction.connection.execute(WRITE)


def test_what_a_callers_own_statement_met_is_no_session_for_the_next_blocking(dsn: str) -> None:
    set_read_only(dsn, "on")
    with BlockingDatabase(dsn) as database:
        with suppress(KeyError), database.transaction() as transaction:
            with suppress(psycopg.errors.ReadOnlySqlTransaction):
                transaction.connection.execute(WRITE)
            set_read_only(dsn, "off")
            raise KeyError("the caller's own")
        with database.transaction() as transaction:
            transaction.connection.execute(WRITE)
