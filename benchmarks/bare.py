"""The same state changes as the shortest statements that make them: what our own are compared with.

Same tables and columns, same batches, same driver, same durability, and the same planner
settings, without which statistics would lead the planner astray. What they leave out is what ours are for:
whether the worker still counts as alive, paused queues, deadlines, timeouts, fences with an answer, cancel
requests, retries, retention, unique keys, counts.
"""

from benchmarks.session import ARGS, BATCH, KIND, QUEUE, Session
from holdfast.storage.arrays import number_array, text_array

CLAIM = """
with picked as materialized (
  select segment, ctid as place
    from {schema}.ready
   where segment in (0, 1, 2, 3) and queue = %(queue)s::text and kind = any(%(kinds)s::text[])
   order by priority, job
   limit %(limit)s::int
     for update skip locked
), taken as (
  delete from {schema}.ready r
   using picked p
   where r.segment in (0, 1, 2, 3) and r.segment = p.segment and r.ctid = p.place
  returning r.job, r.attempt
), leased as (
  insert into {schema}.lease (worker, job, run, started_at, timeout_at, attempt)
  select %(worker)s::bigint, job, nextval('{schema}.run'), now(), now() + interval '1 hour', attempt + 1
    from taken
  returning job, run, attempt
)
select j.id, l.run, l.attempt, j.kind, j.args::text
  from leased l
  join {schema}.job j on j.id = l.job
"""

SETTLE = """
with gone as (
  delete from {schema}.lease
   where worker = %(worker)s::bigint and job = any(%(jobs)s::bigint[]) and run = any(%(runs)s::bigint[])
  returning job, run, started_at, worker, attempt
)
insert into {schema}.ledger
       (job, run, started_at, finished_at, keep_until, worker, outcome, attempt, is_final, queue, kind)
select g.job, g.run, g.started_at, now(), now() + interval '1 day', g.worker, 'succeeded', g.attempt, true,
       j.queue, j.kind
  from gone g
  join {schema}.job j on j.id = g.job
returning job
"""

# In a CTE, so that each array is read once and not for each row.
TUNED_SETTLE = (
    SETTLE.replace("with gone", "with done as materialized (select {arrays}), gone")
    .replace("{arrays}", "%(jobs)s::text::bigint[] as jobs, %(runs)s::text::bigint[] as runs")
    .replace("any(%(jobs)s::bigint[])", "any((select jobs from done)::bigint[])")
    .replace("any(%(runs)s::bigint[])", "any((select runs from done)::bigint[])")
)

ENQUEUE = """
insert into {schema}.job (created_at, priority, max_attempts, kind, queue, args)
select now(), 5, 20, kind, queue, args::jsonb
  from unnest(%(kinds)s::text::text[], %(queues)s::text::text[], %(args)s::text::text[])
    as new (kind, queue, args)
returning id
"""


def cycle(session: Session, worker: int) -> int:
    rows = session.ask(CLAIM, {"queue": QUEUE, "kinds": [KIND], "limit": BATCH, "worker": worker})
    done = {"worker": worker, "jobs": [row[0] for row in rows], "runs": [row[1] for row in rows]}
    return len(session.ask(SETTLE, done))


def tuned_cycle(session: Session, worker: int) -> int:
    """The same with what we learnt of this driver: numbers sent as text, results read as bytes."""
    wish = {"queue": QUEUE, "kinds": [KIND], "limit": BATCH, "worker": worker}
    rows = session.ask(CLAIM, wish, binary=True)
    jobs, runs = number_array([row[0] for row in rows]), number_array([row[1] for row in rows])
    return len(session.ask(TUNED_SETTLE, {"worker": worker, "jobs": jobs, "runs": runs}, binary=True))


def enqueue(session: Session, number: int) -> None:
    columns = {"kinds": [KIND] * number, "queues": [QUEUE] * number, "args": [ARGS] * number}
    session.ask(ENQUEUE, {name: text_array(column) for name, column in columns.items()})
