-- The step that each of some state machines has come to. No row: it is at its first step, which is in the job's arguments.
-- Locks nothing; leans on checkpoint_open.
select c.job, c.name, c.place, coalesce(c.value, '{}')::text as fields
  from unnest(%(jobs)s::text::bigint[]) as a (job)
 cross join lateral (
   select job, name, place, value
     from {schema}.checkpoint where job = a.job and not is_done and kind = 'state' offset 0) c
