"""Real workers, killed and frozen: each effect of a flow happens once, on any worker."""

import importlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from acceptance.books import Books
from acceptance.workers import Workers
from storage.interleaving.table_invariants import flaws
from support.waiting import until


@pytest.fixture
def workers(dsn: str, tmp_path: Path) -> Iterator[Workers]:
    books = Books(dsn, tmp_path)
    workers = Workers(dsn, books, tmp_path)
    yield workers
    workers.destroy()
    books.close()


@pytest.fixture
async def orders(books: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """The module of flows, loaded afresh: its App takes the database of this test."""
    with psycopg.connect(books) as connection:
        connection.execute("create table visit (number int not null, pid int not null)")
    monkeypatch.setenv("HOLDFAST_DSN", books)
    module = importlib.reload(importlib.import_module("flows.order_app"))
    async with module.app:
        yield module


class Ledger:
    """What an operator with psql sees."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)

    def value(self, query: str, *params: object) -> Any:
        row = self._connection.execute(query.encode(), params).fetchone()
        return row[0] if row else None

    def effects(self) -> list[str]:
        return [name for (name,) in self._connection.execute("select name from deed order by name")]

    def are_flaws(self) -> dict[str, Any]:
        return dict(flaws(self._connection))


@pytest.fixture
def ledger(books: str) -> Iterator[Ledger]:
    ledger = Ledger(books)
    yield ledger
    ledger._connection.close()


def expected(count: int) -> list[str]:
    return sorted(f"{order}: {what}" for order in range(count) for what in ("reserved", "charged", "closed"))


def ended(ledger: Ledger, count: int) -> bool:
    query = "select count(*) from holdfast.jobs where kind = 'fulfil' and state = 'succeeded'"
    return bool(ledger.value(query) == count)


@pytest.mark.requirement("S1.4", "S1.24")
async def test_flows_of_a_worker_that_was_killed_go_on_elsewhere_and_do_nothing_twice(
    orders: Any, workers: Workers, ledger: Ledger
) -> None:
    count = 40
    one = await workers.start(module="flows.order_app", lease=2)
    await orders.app.enqueue_many([orders.fulfil.call(order) for order in range(count)])
    await until(lambda: ledger.value("select count(*) from visit") >= 3, "it is in the middle of steps")
    one.kill()
    other = await workers.start(module="flows.order_app", lease=2)
    for order in range(count):
        await orders.app.emit(f"packed:{order}")
    await until(lambda: ended(ledger, count), "all have ended", within=60)
    await other.stop()
    assert ledger.effects() == expected(count)
    assert ledger.are_flaws() == {}
    assert ledger.value("select count(*) from holdfast.ledger where outcome = 'retried'") > 0


@pytest.mark.requirement("S1.27", "S1.28", "S1.29")
async def test_a_frozen_worker_whose_flow_was_taken_over_can_write_nothing_of_it_when_it_wakes(
    orders: Any, workers: Workers, ledger: Ledger
) -> None:
    frozen = await workers.start(module="flows.order_app", lease=2, beat=0.5)
    await orders.app.emit("packed:0")
    await orders.fulfil.enqueue(0)
    await until(lambda: ledger.value("select count(*) from visit") == 1, "it is in the middle of a step")
    frozen.freeze()
    other = await workers.start(module="flows.order_app", lease=2, beat=0.5)
    await until(lambda: ended(ledger, 1), "the other one has done it", within=60)
    frozen.thaw()
    await until(lambda: frozen.lines("lost"), "it hears of its loss", within=30)
    await frozen.stop()
    await other.stop()
    assert ledger.effects() == expected(1)
    assert ledger.value("select count(distinct pid) from visit") == 2
