-- Whether a job is a flow or a machine, as far as the tables tell: it has done or begun a step, it waits, or one of the latest
-- %(hops)s that have begun is of its kind. A flow of a new kind that has done nothing yet looks like a plain job.
-- Always one row. Locks nothing. Hops through the primary key of checkpoint only when the job itself has nothing there.
with recursive begun as (
  (select job, 1 as turn from {schema}.checkpoint order by job desc limit 1)
  union all
  select c.job, b.turn + 1
    from begun b
   cross join lateral (select job from {schema}.checkpoint where job < b.job order by job desc limit 1) c
   where b.turn < %(hops)s::int
)
select exists (select from {schema}.checkpoint where job = %(job)s::bigint)
    or exists (select from {schema}.waiting where job = %(job)s::bigint)
    or exists (select from begun b
                cross join lateral (select kind from {schema}.job where id = b.job offset 0) j
                where j.kind = %(kind)s::text)
