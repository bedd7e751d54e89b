-- A part of unpark.sql and unserved.sql, which are recursive: each (queue, kind) that has parked jobs, found by stepping from
-- one to the next along ready_parked_kind, however many jobs each has.
parked as (
  (select queue, kind from {schema}.ready_parked order by queue, kind limit 1)
  union all
  select n.queue, n.kind
    from parked p
   cross join lateral (
     select queue, kind from {schema}.ready_parked
      where (queue, kind) > (p.queue, p.kind)
      order by queue, kind
      limit 1) n
)
