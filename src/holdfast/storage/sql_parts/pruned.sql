-- Delete the jobs in `ended`, which this statement has locked, with all that is known of them; `old` are those that went.
-- Never waits: leaves jobs whose dead row or left-behind unique key another transaction has locked. (A plan of an ended job is locked
-- only by its own pruning, which is one short statement.) Leaves unique keys that are held for a time which is not over, a child whose
-- flow has not taken up its end yet, and the members of
-- open groups (`held`): these are kept for another hour, so that they do not stand before others, and are looked for only while there is
-- an open group.
buried as materialized (
  -- What few of them have is looked for by one pass over its key, not by a look for each.
  select job from {schema}.dead where job = any(array(select job from ended))
), dead as materialized (
  select b.job from buried b
   cross join lateral (select from {schema}.dead where job = b.job for update skip locked) d
), keyed as materialized (
  select job from {schema}.unique_key where job = any(array(select job from ended))
), keys as materialized (
  select k.job, u.until from keyed k
   cross join lateral (select until from {schema}.unique_key where job = k.job for update skip locked) u
), awaited as materialized (
  select child from {schema}.checkpoint where child = any(array(select job from ended)) and not is_done
), held as materialized (
  select job from {schema}.group_member
   where job = any(array(select job from ended)) and exists (select from {schema}.job_group where ended_at is null)
     and exists (select from {schema}.job_group g where g.id = job_group and g.ended_at is null offset 0)
), postponed as (
  -- Only ends have a time. To ask for is_final would allow for ledger_keep_until, from end to end.
  update {schema}.ledger set keep_until = (select now from clock) + interval '1 hour'
   where job = any(array(select job from held)) and keep_until is not null
), old as materialized (
  select job, keep_until
    from ended
   -- `is not true`, so that the planner does not turn them into joins, row by row.
   where (job in (select job from dead) or (job in (select job from buried)) is not true)
     and (job in (select job from keys) or (job in (select job from keyed)) is not true)
     and (job in (select child from awaited)) is not true
     and (job in (select job from held)) is not true
), unheld as materialized (
  select k.job from clock, keys k where (k.until is null or k.until <= clock.now) and k.job in (select job from old)
), out_of_dead as (
  delete from {schema}.dead where job = any(array(select job from old))
), {part deleted_for_good keys=unheld}
