"""What is going on, read a few times a second with plain SQL on the public view and the ledger."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.rows import class_row

_QUEUES = """
select queue,
       count(*) filter (where state = 'ready') as ready,
       count(*) filter (where state = 'running') as running,
       count(*) filter (where state in ('scheduled', 'waiting', 'gated')) as later,
       count(*) filter (where state = 'succeeded') as done,
       count(*) filter (where state = 'failed') as dead
  from holdfast.jobs group by queue
"""
_RUNNING = """
select j.id as job, j.kind, coalesce(j.args ->> 'order_id', '') as order_id, j.attempt,
       clock_timestamp() - j.started_at as age, w.pid, w.expires_at < clock_timestamp() as is_silent
  from holdfast.jobs j join holdfast.worker w on w.id = j.worker
 where j.state = 'running' order by j.started_at
"""
_SCHEDULES = """
select s.name, count(p.job)::int as fires, min(c.next_at) - clock_timestamp() as next_in
  from holdfast.schedule s
  join holdfast.schedule_scope c on c.schedule = s.name
  left join holdfast.plan p on p.schedule = s.name
 group by s.name order by s.name desc
"""
# How far each has come: what it has done last.
_DELIVERIES = """
select count(*)::int as begun,
       count(*) filter (where last = 'reserve')::int as reserved,
       count(*) filter (where last = 'charge')::int as charged,
       count(*) filter (where last = 'ship')::int as shipped
  from holdfast.job j
  left join lateral (select name as last from holdfast.checkpoint c
                      where c.job = j.id and c.kind = 'transaction' order by c.place desc limit 1) c on true
 where j.kind = 'deliver'
"""
_WORKERS = """
select (select count(*)::int from holdfast.worker where lost_at is null),
       clock_timestamp() - (select min(created_at) from holdfast.job)
"""
# Of several snoozes of a job only the first: the others say the same again.
_EVENTS = """
with story as (select min(created_at) as began from holdfast.job)
select l.finished_at - began as after, l.outcome::text, l.kind, j.args ->> 'order_id' as order_id,
       l.attempt, j.max_attempts, l.error ->> 'code' as code, l.error ->> 'message' as message,
       l.worker, l.run,
       (select name from holdfast.checkpoint c
         where c.job = l.job and is_done and written_at <= finished_at order by place desc limit 1) as done
  from holdfast.ledger l join holdfast.job j on j.id = l.job cross join story
 where l.outcome in ('retried', 'failed')
    or l.outcome = 'snoozed' and l.kind = 'pack' and not exists (
         select from holdfast.ledger e where e.job = l.job and e.outcome = 'snoozed' and e.run < l.run)
union all
select lost_at - began, 'lost', null, null, null, null, null, null, pid, 0, null
  from holdfast.worker cross join story where lost_at is not null
union all
select decided_at - began, 'caught_up', schedule, null, null, null, null,
       to_char(plan_time at time zone 'UTC', 'HH24:MI:SS') || ' UTC', null, 0, null
  from holdfast.plan cross join story where decision = 'caught_up'
 order by after desc, run desc limit 200
"""


@dataclass(frozen=True, slots=True)
class Queue:
    queue: str
    ready: int = 0
    running: int = 0
    later: int = 0
    done: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class Running:
    job: int
    kind: str
    order_id: str
    attempt: int
    age: timedelta
    pid: int
    is_silent: bool


@dataclass(frozen=True, slots=True)
class Event:
    """`worker` is the process id where the outcome is that a worker was lost; the kind is a schedule, and the
    message its plan time, where the outcome is that a plan was caught up. `done` is the last step of a flow.
    """

    after: timedelta
    outcome: str
    kind: str | None
    order_id: str | None
    attempt: int | None
    max_attempts: int | None
    code: str | None
    message: str | None
    worker: int | None
    run: int
    done: str | None

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it another one than those before."""
        return self.outcome, self.run, self.worker, self.kind, self.message

    @property
    def is_rescue(self) -> bool:
        """From its start: a flow that has done something continues after it."""
        return self.outcome == "retried" and self.code == "lease_lost" and self.done is None


@dataclass(frozen=True, slots=True)
class Scheduled:
    name: str
    fires: int
    next_in: timedelta | None


@dataclass(frozen=True, slots=True)
class Deliveries:
    begun: int
    reserved: int
    charged: int
    shipped: int


@dataclass(frozen=True, slots=True)
class Picture:
    """`after` is how long the story lasts, by the clock of its events, and no shorter than any of them."""

    after: timedelta
    workers: int
    queues: dict[str, Queue]
    running: list[Running]
    events: list[Event]
    schedules: list[Scheduled]
    deliveries: Deliveries

    @property
    def active(self) -> int:
        return sum(queue.ready + queue.running + queue.later for queue in self.queues.values())

    @property
    def ended(self) -> int:
        return sum(queue.done + queue.dead for queue in self.queues.values())


async def take_picture(conn: psycopg.AsyncConnection[Any]) -> Picture:
    """Newest events first."""
    async with conn.cursor(row_factory=class_row(Queue)) as cursor:
        queues = {queue.queue: queue for queue in await (await cursor.execute(_QUEUES)).fetchall()}
    async with conn.cursor(row_factory=class_row(Running)) as cursor:
        running = await (await cursor.execute(_RUNNING)).fetchall()
    async with conn.cursor(row_factory=class_row(Event)) as cursor:
        happened = await (await cursor.execute(_EVENTS)).fetchall()
    async with conn.cursor(row_factory=class_row(Scheduled)) as cursor:
        schedules = await (await cursor.execute(_SCHEDULES)).fetchall()
    async with conn.cursor(row_factory=class_row(Deliveries)) as cursor:
        [deliveries] = await (await cursor.execute(_DELIVERIES)).fetchall()
    [(workers, after)] = await (await conn.execute(_WORKERS)).fetchall()
    return Picture(after or timedelta(), workers, queues, running, happened, schedules, deliveries)
