-- Put the rows of ready that do not fit their jobs where they belong, with the queue, the kind and a priority of the job.
-- Locks the rows, skipping locked ones, and inserts them again. Reads ready once, as no index has its jobs.
-- Answers the jobs.
with found as materialized (
  select r.segment, r.ctid as place, r.job, j.queue, j.kind, j.limits, j.limit_keys,
         case when r.priority between 0 and 9 then r.priority else least(greatest(j.priority, 0), 9)::smallint end as priority
    from {schema}.ready r
   cross join lateral (select queue, kind, priority, limits, limit_keys from {schema}.job where id = r.job offset 0) j
   where r.job = any(%(jobs)s::bigint[])
     and (r.queue <> j.queue or r.kind <> j.kind or r.priority not between 0 and 9)
   order by r.job
     for update of r skip locked
), gone as (
  delete from {schema}.ready r using found f where r.segment = f.segment and r.ctid = f.place
  returning f.queue, f.kind, f.priority, r.job, r.segment, r.attempt, r.ready_at, r.deadline_at, r.limit_name, r.limit_key, r.next_limit,
            r.next_key, f.limits, f.limit_keys
), {part replaced_in_ready of=gone parked=8}, {part told_of_placed of=placed}
select distinct g.job from gone g, (select count(*) from told) as everyone
