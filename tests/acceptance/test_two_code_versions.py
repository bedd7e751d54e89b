"""Two versions of the code at once: each runs the kinds it knows, and leaves the rest to the other."""

from typing import Any

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import ledger
from acceptance.workers import Workers
from support.waiting import until

pytestmark = pytest.mark.machine  # workers in processes of their own


@pytest.mark.requirement("S2.25", "S4.10")
async def test_old_workers_leave_kinds_alone_that_they_do_not_know(
    shop: Any, shop_next: Any, books: Books, workers: Workers
) -> None:
    old = await workers.start()
    parcel = await shop_next.ship.enqueue(7)
    for number in range(20):
        assert await (await shop.greet.enqueue(str(number))).result("10s") == f"hello {number}"
    assert books.state(parcel.id) == "ready"
    assert books.outcomes(parcel.id) == []
    new = await workers.start(module="acceptance.shop_next")
    assert await parcel.result("20s") == 7
    assert books.outcomes(parcel.id) == ["succeeded"]
    await old.stop()
    await new.stop()
    books.assert_balanced(21)


@pytest.mark.requirement("S1.15", "S1.16", "S4.14")
async def test_what_old_code_cannot_read_waits_for_the_new_one_at_no_cost(
    shop_next: Any, books: Books, workers: Workers
) -> None:
    old = await workers.start()
    handle = await shop_next.greet.enqueue("Kari", language="nb")
    await until(lambda: books.outcomes(handle.id), "old code has met it")
    first = ledger(shop_next.app, books, handle.id)[0]
    assert (first["outcome"], first["is_final"]) == ("snoozed", False)
    assert first["error"]["code"] == "decode_error"
    assert "language" in first["error"]["message"]
    new = await workers.start(module="acceptance.shop_next")
    assert await handle.result("30s") == "hei Kari"
    *met, last = ledger(shop_next.app, books, handle.id)
    assert {entry["outcome"] for entry in met} == {"snoozed"}
    assert (last["outcome"], last["attempt"]) == ("succeeded", 1)
    await old.stop()
    await new.stop()
    books.assert_balanced(1)


@pytest.mark.requirement("S1.15", "S4.14")
async def test_what_new_code_cannot_read_is_done_by_the_old_one(
    shop: Any, books: Books, workers: Workers
) -> None:
    new = await workers.start(module="acceptance.shop_next")
    handle = await shop.wrap.enqueue("a book", "a bow")
    await until(lambda: books.outcomes(handle.id), "new code has met it")
    old = await workers.start()
    assert await handle.result("30s") == "a book with a bow"
    assert set(books.outcomes(handle.id)) == {"snoozed", "succeeded"}
    await old.stop()
    await new.stop()
    books.assert_balanced(1)


async def test_what_was_enqueued_before_a_parameter_came_runs_with_its_default(
    shop: Any, books: Books, workers: Workers
) -> None:
    handle = await shop.greet.enqueue("Ola")
    new = await workers.start(module="acceptance.shop_next")
    assert await handle.result("20s") == "hello Ola"
    await new.stop()
