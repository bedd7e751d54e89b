"""The shop: its tables, and its jobs. This is what a user of Holdfast writes."""

import asyncio
import hashlib
import os
import signal
from typing import Any

import psycopg

from holdfast import App, Context, Flow, Limit, Retry, Snooze

app = App()  # the demo sets HOLDFAST_DSN

Conn = psycopg.AsyncConnection[Any]

# No payment or shipment is unique by a constraint: that there is one for each order is the worker's doing.
TABLES = """
create table orders (id int primary key, customer text not null, item text not null, cents int not null);
create table payment (order_id int not null, cents int not null);
create table reservation (order_id int not null);
create table shipment (order_id int not null);
create table sold_out (item text primary key);
create table stock_count (plan_time timestamptz not null);
create table closing (day date not null);
"""

QUEUES = {"mail": 4, "payments": 4, "warehouse": 4, "invoices": 2, "office": 2}

FLAKY = 10
"""The provider refuses the payment of every tenth order twice."""

DELIVERED = ("teapot", "rug")
"""Things that are brought to the customer: their orders are flows."""

UNLUCKY = 12
"""The order whose worker is killed between two steps of its flow."""

DOOMED = 9
"""The order that the tax office will never accept."""


class ProviderDown(Exception):
    pass


@app.job(queue="mail")
async def confirm_order(order_id: int) -> None:  # noqa: ARG001  # it would be in the mail
    await asyncio.sleep(0.2)


@app.job(queue="payments", retry=Retry(max_attempts=5, backoff=["400ms", "1s"], on=ProviderDown))
async def take_payment(ctx: Context, order_id: int, cents: int) -> None:
    await asyncio.sleep(0.3)
    if order_id % FLAKY == 0 and ctx.attempt <= 2:  # noqa: PLR2004  # "refuses twice"
        raise ProviderDown("the provider answers 503")
    # The payment, the jobs that follow from it and the end of this job: one commit, or none of it.
    async with ctx.transaction() as conn:
        await book(conn, order_id, cents)


@app.flow(queue="payments")
async def deliver(flow: Flow, order_id: int, cents: int) -> None:
    """Any worker may continue it, after its last finished step. While it waits, it holds no worker."""
    await flow.transaction("reserve", reserve, order_id)
    await flow.transaction("charge", charge, order_id, cents, flow.attempt)
    await flow.wait_event(f"packed:{order_id}", timeout="7 days")
    await flow.transaction("ship", ship, order_id)


async def reserve(conn: Conn, order_id: int) -> None:
    await conn.execute("insert into reservation values (%s)", [order_id])


async def charge(conn: Conn, order_id: int, cents: int, attempt: int) -> None:
    if order_id == UNLUCKY and attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    await book(conn, order_id, cents)


async def book(conn: Conn, order_id: int, cents: int) -> None:
    await conn.execute("insert into payment values (%s, %s)", [order_id, cents])
    await pack.using(conn=conn).enqueue(order_id)
    await make_invoice.using(conn=conn).enqueue(order_id, cents)


async def ship(conn: Conn, order_id: int) -> None:
    await conn.execute("insert into shipment values (%s)", [order_id])


@app.job(queue="warehouse")
async def pack(ctx: Context, order_id: int) -> None:
    await asyncio.sleep(0.2)
    async with ctx.transaction() as conn:
        order = await conn.execute(
            "select item, s.item is not null from orders left join sold_out s using (item) where id = %s",
            [order_id],
        )
        [(item, is_sold_out)] = await order.fetchall()
        if is_sold_out:
            raise Snooze("2s")
        if item in DELIVERED:
            await app.emit(f"packed:{order_id}", conn=conn)


@app.job(queue="warehouse", limit=Limit(total=1))
async def print_label(order_id: int) -> None:  # noqa: ARG001  # it would be on the label
    """There is one printer for both workers: a limit lets one label at a time reach it."""
    await asyncio.sleep(0.1)


@app.job(queue="invoices", isolate="process", timeout="20s")
def make_invoice(order_id: int, cents: int) -> str:
    """Keeps a CPU busy, in a process of its own: the worker's event loop does not notice."""
    return hashlib.pbkdf2_hmac("sha256", f"{order_id}:{cents}".encode(), b"shop", 200_000).hex()


@app.job(queue="mail", retry=Retry(max_attempts=3, backoff=["500ms", "1s"]))
def tell_tax_office(order_id: int) -> None:
    if order_id == DOOMED:
        raise ValueError("no VAT number")


@app.schedule(every="3s", missed="every", window="5m")
@app.job(queue="office")
async def count_stock(ctx: Context) -> None:
    """Counted once for each plan, also when the leader is killed in between."""
    assert ctx.plan is not None  # noqa: S101  # only its schedule calls it
    async with ctx.transaction() as conn:
        await conn.execute("insert into stock_count values (%s)", [ctx.plan.time])


@app.job(queue="office")
async def close_books(ctx: Context) -> None:
    """For the day of the plan, however late it runs."""
    assert ctx.plan is not None  # noqa: S101  # only its schedule calls it
    async with ctx.transaction() as conn:
        await conn.execute("insert into closing values (%s)", [ctx.plan.time])
