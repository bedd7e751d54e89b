-- Let flows that wait for nothing run: each finds its way again by its checkpoints, and waits for what it needs.
-- Locks the rows of waiting, skipping locked ones. Leans on the primary keys of waiting, wait and job. Answers the jobs.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), picked as materialized (
  select w.ctid as place, w.job, w.holds, j.queue, j.kind, j.priority, j.deadline_at, j.limits, j.limit_keys
    from {schema}.waiting w
   cross join lateral (select queue, kind, priority, deadline_at, limits, limit_keys from {schema}.job where id = w.job offset 0) j
   where w.job = any(%(jobs)s::bigint[]) and not exists (select from {schema}.wait a where a.job = w.job offset 0)
   order by w.job
     for update of w skip locked
), gone as (
  delete from {schema}.waiting where ctid = any(array(select place from picked)) returning job
), awake as (
  select p.queue, least(greatest(p.priority, 0), 9) as priority, p.job, p.kind, 0 as attempt, clock.now as ready_at, p.deadline_at,
         p.limits, p.limit_keys, p.holds
    from clock, picked p
    join gone using (job)
), {part placed of=awake}, {part told_of_placed of=placed}
select g.job from gone g, (select count(*) from told) as everyone
