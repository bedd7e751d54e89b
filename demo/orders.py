"""Customers: each order and its jobs are written in one transaction, and some customers change their mind."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import psycopg

from demo.shop import (
    DELIVERED,
    TABLES,
    app,
    close_books,
    confirm_order,
    deliver,
    print_label,
    take_payment,
    tell_tax_office,
)
from holdfast import Call

_CUSTOMERS = ("Ada", "Bo", "Chidi", "Dana", "Elif", "Femi", "Gro", "Hana")
_ITEMS = ("kettle", "lamp", "teapot", "rug", "stool")
_SOLD_OUT = "teapot"
_CHANGES_MIND = 7
_IS_BUSINESS = 3
_CLOSED_FOR = timedelta(hours=8)
# As if the schedule had existed since yesterday, while no worker ran.
_SINCE_YESTERDAY = "update holdfast.schedule_scope set since_at = since_at - interval '1 day'"


class ChangedMind(Exception):
    pass


def _pay_or_leave(number: int) -> None:
    if number % _CHANGES_MIND == 0:
        raise ChangedMind


@dataclass(slots=True)
class Books:
    """What the shop itself has seen: the witness against which the database is held at the end."""

    placed: list[int] = field(default_factory=list)
    rolled_back: list[int] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    jobs_rolled_back: list[int] = field(default_factory=list)


class Shop:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._luck = random.Random(1)  # noqa: S311  # the same story every time
        self._number = 0
        self.books = Books()

    async def open(self) -> None:
        async with await psycopg.AsyncConnection.connect(self._dsn) as conn:
            await conn.execute(TABLES)
            await conn.execute("insert into sold_out values (%s)", [_SOLD_OUT])
            hour = (datetime.now(UTC) - _CLOSED_FOR).hour
            await app.schedules.put("close_books", close_books.call(), cron=f"0 {hour} * * *", conn=conn)
            await conn.execute(_SINCE_YESTERDAY)

    async def restock(self) -> None:
        async with await psycopg.AsyncConnection.connect(self._dsn) as conn:
            await conn.execute("delete from sold_out")

    async def take_order(self) -> None:
        self._number += 1
        number = self._number
        jobs: list[int] = []
        try:
            async with await psycopg.AsyncConnection.connect(self._dsn) as conn:
                jobs = await self._write(conn, number)
                _pay_or_leave(number)
        except ChangedMind:
            self.books.rolled_back.append(number)
            self.books.jobs_rolled_back += jobs
        else:
            self.books.placed.append(number)
            self.books.jobs += jobs

    async def _write(self, conn: "psycopg.AsyncConnection[tuple[object, ...]]", number: int) -> list[int]:
        cents = self._luck.randrange(500, 20_000)
        item = _ITEMS[number % len(_ITEMS)]
        await conn.execute(
            "insert into orders values (%s, %s, %s, %s)",
            [number, self._luck.choice(_CUSTOMERS), item, cents],
        )
        handle = deliver if item in DELIVERED else take_payment
        calls: list[Call[None]] = [
            confirm_order.call(number),
            handle.call(number, cents),
            print_label.call(number),
        ]
        if number % _IS_BUSINESS == 0:
            calls.append(tell_tax_office.call(number))
        return [handle.id for handle in await app.enqueue_many(calls, conn=conn)]
