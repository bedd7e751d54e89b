-- Look at up to %(limit)s rows of ready behind a place in its primary key: their jobs must be there, must not have ended, and
-- have the same queue and kind. Claims sweep rows of jobs that are gone or have ended, but only when it is their turn.
-- Locks nothing; leans on the primary keys of ready, job and ledger.
-- Always answers a row: how many were looked at, and the place of the last of them.
with range as materialized (
  select queue, priority, job, segment, kind
    from {schema}.ready
   where (queue, priority, job, segment)
         > (%(queue)s::text, %(priority)s::smallint, %(after)s::bigint, %(segment)s::smallint)
   order by queue, priority, job, segment
   limit %(limit)s::int
), known as (
  select r.job, j.id, r.queue is distinct from j.queue or r.kind is distinct from j.kind
                      or r.priority not between 0 and 9 as is_misplaced,
         exists (select from {schema}.ledger l where l.job = r.job and l.is_final::int = 1 offset 0) as is_over
    from range r
    left join lateral (select id, queue, kind from {schema}.job where id = r.job offset 0) j on true
), found as (
  select distinct job, case when id is null then 'ready_of_no_job' when is_over then 'ended_but_ready'
                            else 'misplaced' end as damage
    from known
   where id is null or is_over or is_misplaced
), last as (
  select queue, priority, job, segment from range order by queue desc, priority desc, job desc, segment desc limit 1
)
select f.job, f.damage, (select count(*)::int from range) as looked, l.queue, l.priority, l.job as last, l.segment
  from (select) as always
  left join last l on true
  left join found f on true
 order by f.job
