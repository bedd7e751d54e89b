"""Outages that begin and end at a chosen moment: the first writes to a table fail, the next succeed. They are
counted by a sequence, which no rollback turns back.
"""

from typing import Any

import psycopg
from psycopg import sql

CANCELLED, TERMINATED = "cancel", "terminate"
CODES = (
    CANCELLED,  # pg_cancel_backend or statement_timeout: 57014
    TERMINATED,  # pg_terminate_backend: 57P01
    "25006",  # read-only, after a failover
    "53100",  # the disk is full
    "53300",  # too many connections
    "42501",  # a right was revoked
    "40001",
    "40P01",
    "58030",  # an I/O error
    "XX000",
    "P0001",  # raised by a trigger
)

_TRIGGER = """
create sequence outage;
create function outage() returns trigger language plpgsql as $$
begin
    if nextval('public.outage') <= {times} then
        {trouble}
    end if;
    return new;
end $$;
create trigger outage before insert on holdfast.{table} for each statement execute function outage();
"""


def begin_outage(connection: psycopg.Connection[Any], table: str, code: str, times: int) -> None:
    match code:
        case "cancel":
            trouble: sql.Composable = sql.SQL(
                "perform pg_cancel_backend(pg_backend_pid()); perform pg_sleep(10);"
            )
        case "terminate":
            trouble = sql.SQL("perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(10);")
        case _:
            trouble = sql.SQL("raise exception using errcode = {};").format(sql.Literal(code))
    connection.execute(
        sql.SQL(_TRIGGER).format(times=sql.Literal(times), table=sql.Identifier(table), trouble=trouble)
    )


def failures(connection: psycopg.Connection[Any]) -> int:
    """How many writes were tried so far, failures and successes."""
    [(count,)] = connection.execute("select last_value from outage").fetchall()
    return int(count)
