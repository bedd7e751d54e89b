-- All checkpoints of some flows, in the order of their main path: what a run begins with. Of children, what was called.
-- Locks nothing; leans on the primary keys of checkpoint and job. No row: the flow has done nothing yet.
select c.job, c.name, c.kind, c.place, c.code, c.is_done, c.failures, c.value::text, c.error::text, c.child,
       least(greatest(c.until, clock.now), clock.now + interval '36525 days') - clock.now as left_to_wait,
       j.kind as child_kind, j.args::text as child_args, c.branch
  from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) clock,
       unnest(%(jobs)s::text::bigint[]) as a (job)
 cross join lateral (
   select job, name, kind, place, code, is_done, failures, value, error, child, until, branch
     from {schema}.checkpoint where job = a.job offset 0) c
  left join lateral (select kind, args from {schema}.job where id = c.child offset 0) j on true
 order by c.job, c.place nulls last, c.name
