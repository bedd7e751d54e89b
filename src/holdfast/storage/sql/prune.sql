-- Delete up to %(limit)s jobs that ended and were kept as long as they asked, with all that is known of them.
-- Looks from %(since)s on (NULL: from the beginning), as promote does. Leans on ledger_keep_until.
-- Never waits: skips locked rows, and jobs whose dead row or left-behind unique key another transaction has locked. (A plan
-- of an ended job is locked only by its own pruning, which is one short statement.)
-- Leaves a child whose flow has not taken up its end yet.
-- Answers how many, and the latest time seen: the next since.
with ended as materialized (
  select job, keep_until
    from {schema}.ledger
   where is_final and keep_until <= coalesce(%(now)s::timestamptz, statement_timestamp())
     and keep_until >= coalesce(%(since)s::timestamptz, '-infinity')
   order by keep_until
   limit %(limit)s::int
     for update skip locked
), buried as materialized (
  -- What few of them have is looked for by one pass over its key, not by a look for each.
  select job from {schema}.dead where job = any(array(select job from ended))
), dead as materialized (
  select b.job from buried b
   cross join lateral (select from {schema}.dead where job = b.job for update skip locked) d
), keyed as materialized (
  select job from {schema}.unique_key where job = any(array(select job from ended))
), keys as materialized (
  select k.job from keyed k
   cross join lateral (select from {schema}.unique_key where job = k.job for update skip locked) u
), awaited as materialized (
  select child from {schema}.checkpoint where child = any(array(select job from ended)) and not is_done
), old as materialized (
  select job, keep_until
    from ended
   -- `is not true`, so that the planner does not turn them into joins, row by row.
   where (job in (select job from dead) or (job in (select job from buried)) is not true)
     and (job in (select job from keys) or (job in (select job from keyed)) is not true)
     and (job in (select child from awaited)) is not true
), out_of_dead as (
  delete from {schema}.dead where job = any(array(select job from old))
), {part deleted_for_good}
select count(*)::int, max(keep_until) from old
