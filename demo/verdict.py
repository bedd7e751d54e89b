"""Holds what the database says at the end against what the shop has seen."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg

from demo.orders import Books

_STATES = "select id, state from holdfast.jobs where id = any(%s)"
_FOLLOWERS = """
select count(*) filter (where state = 'succeeded'),
       count(*) filter (where state in ('ready', 'gated', 'running', 'scheduled'))
  from holdfast.jobs where kind in ('pack', 'make_invoice')
"""
_PAYMENTS = "select count(*), count(distinct order_id) from payment"
_LEDGER = """
select count(*) filter (where outcome = 'retried' and error ->> 'code' <> 'lease_lost'),
       count(*) filter (where outcome = 'snoozed' and kind = 'pack'),
       count(*) filter (where error ->> 'code' = 'lease_lost')
  from holdfast.ledger
"""
# A flow is right if each of its steps was committed once: a row in the shop's own table for each of them.
_FLOWS = """
select count(*),
       count(*) filter (where j.state = 'succeeded'),
       count(*) filter (where reserved > 1 or shipped > 1
                           or j.state = 'succeeded' and (reserved, shipped) <> (1, 1)),
       (select count(*) from holdfast.ledger where kind = 'deliver' and error ->> 'code' = 'lease_lost')
  from holdfast.jobs j
 cross join lateral (select (j.args ->> 'order_id')::int as id) o
 cross join lateral (select (select count(*) from reservation where order_id = o.id) as reserved,
                            (select count(*) from shipment where order_id = o.id) as shipped) n
 where j.kind = 'deliver'
"""
_SCHEDULES = """
select (select count(*) from holdfast.plan where schedule = 'count_stock' and decision = 'missed'),
       (select count(*) from stock_count), (select count(distinct plan_time) from stock_count),
       (select count(*) from closing),
       (select decided_at - plan_time from holdfast.plan
         where decision = 'caught_up' and schedule = 'close_books')
"""
# How many labels were printed, and how many of them at the same time at most.
_LABELS = """
with printed as (
  select started_at, finished_at from holdfast.ledger where kind = 'print_label' and worker is not null)
select count(*), coalesce(max((select count(*) from printed o
                                where o.started_at < p.finished_at and p.started_at < o.finished_at)), 0)
  from printed p
"""
# Beside what the shop has enqueued.
_FIRED = """
select count(*) from holdfast.jobs
 where kind in (select kind from holdfast.schedule) and state in ('succeeded', 'failed')
"""
_DEAD = """
select kind, args ->> 'order_id', error ->> 'message' from holdfast.jobs where state = 'failed' order by id
"""
_FINAL = ("succeeded", "failed", "cancelled", "expired")
_FOLLOWERS_OF_A_PAYMENT = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    placed: int
    rolled_back: int
    jobs_of_rolled_back: int
    enqueued: int
    succeeded: int
    fired: int
    waiting: int
    lost: int
    retried: int
    snoozed: int
    rescued: int
    payments: int
    orders_paid: int
    flows: int
    flows_done: int
    flows_wrong: int
    flows_resumed: int
    counts: int
    is_each_counted_once: bool
    closings: int
    closed_late: timedelta | None
    labels: int
    labels_at_once: int
    dead: list[tuple[str, str, str]]

    @property
    def is_each_paid_once(self) -> bool:
        """Orders whose payment is still to come, after Ctrl-C, are not paid at all yet."""
        return self.payments == self.orders_paid and (self.waiting > 0 or self.payments == self.placed)

    @property
    def is_good(self) -> bool:
        return (
            self.lost == 0
            and self.jobs_of_rolled_back == 0
            and self.is_each_paid_once
            and self.is_each_counted_once
            and self.flows_wrong == 0
            and self.labels_at_once <= 1
            and (self.closings == 1 or self.waiting > 0)
        )


async def judge(conn: psycopg.AsyncConnection[Any], books: Books) -> Verdict:
    """A job that the shop has committed is lost if the database does not know it, or has it in no state."""

    async def rows(query: str, *params: object) -> list[tuple[Any, ...]]:
        return await (await conn.execute(query, params)).fetchall()

    states = dict(await rows(_STATES, books.jobs))
    [(followers_done, followers_waiting)] = await rows(_FOLLOWERS)
    [(payments, orders_paid)] = await rows(_PAYMENTS)
    [(retried, snoozed, rescued)] = await rows(_LEDGER)
    [(flows, flows_done, flows_wrong, flows_resumed)] = await rows(_FLOWS)
    [(missed, counts, plans_counted, closings, closed_late)] = await rows(_SCHEDULES)
    [(fired,)] = await rows(_FIRED)
    [(labels, labels_at_once)] = await rows(_LABELS)
    followers = _FOLLOWERS_OF_A_PAYMENT * payments
    unknown = [job for job in books.jobs if not states.get(job)]
    unfinished = [job for job, state in states.items() if state and state not in _FINAL]
    return Verdict(
        placed=len(books.placed),
        rolled_back=len(books.rolled_back),
        jobs_of_rolled_back=len(await rows(_STATES, books.jobs_rolled_back)),
        enqueued=len(books.jobs) + followers,
        succeeded=sum(state == "succeeded" for state in states.values()) + followers_done,
        fired=fired,
        waiting=len(unfinished) + followers_waiting,
        lost=len(unknown) + followers - followers_done - followers_waiting,
        retried=retried,
        snoozed=snoozed,
        rescued=rescued,
        payments=payments,
        orders_paid=orders_paid,
        flows=flows,
        flows_done=flows_done,
        flows_wrong=flows_wrong,
        flows_resumed=flows_resumed,
        counts=counts,
        is_each_counted_once=counts == plans_counted and missed == 0,
        closings=closings,
        closed_late=closed_late,
        labels=labels,
        labels_at_once=labels_at_once,
        dead=[(kind, order, message) for kind, order, message in await rows(_DEAD)],
    )
