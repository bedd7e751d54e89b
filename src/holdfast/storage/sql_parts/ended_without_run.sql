-- End the jobs in `stopped` (job, run, attempt, kind, queue, keep, parent, unique_key, limits, limit_keys, kept, held), which no worker runs, as {outcome}
-- with %(error)s, for {keep} unless they say so themselves: the ledger's row, a notice for the hooks of kinds for which a
-- worker has one or which no worker knows, the keys, wake-ups for the flow that called it and for the jobs that it
-- called, the count, the permits that they held. Only inserts, and deletes that skip what is locked; `run` is a number that no worker has.
written as (
  insert into {schema}.ledger (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind, error)
  select job, run, clock.now, clock.now + coalesce(keep, {keep}),
         {outcome}, attempt, true, queue, kind, %(error)s::text::jsonb
    from stopped, clock
), heard as materialized (
  select k.kind
    from (select distinct kind from stopped) k
   where not exists (select from {schema}.worker w where w.hears is not null and k.kind = any(w.kinds))
      or exists (select from {schema}.worker w where jsonb_exists(w.hears -> {outcome}, k.kind))
), noticed as (
  insert into {schema}.notice
         (job, run, at, created_at, deadline_at, outcome, attempt, max_attempts, priority, kind, queue, tags, origin, error)
  select s.job, s.run, clock.now, j.created_at, j.deadline_at, {outcome}, s.attempt, j.max_attempts, j.priority, s.kind,
         s.queue, j.tags, j.origin, %(error)s::text::jsonb
    from clock, heard
    join stopped s using (kind)
   cross join lateral (
     select created_at, deadline_at, max_attempts, priority, tags, origin from {schema}.job where id = s.job offset 0) j
), {part given_back of=stopped}, {part freed_and_forgotten jobs=stopped}, woken as (
  insert into {schema}.wakeup (job, child)
  select parent, job from stopped where parent is not null
  union all
  select s.job, null
    from stopped s
   where exists (select from {schema}.checkpoint c where c.job = s.job and not c.is_done and c.child is not null offset 0)
  returning pg_notify('{schema_name}.wake', '')
), counted as (
  insert into {schema}.tally (minute, outcome, queue, kind, runs, run_time)
  select date_trunc('minute', clock.now), {outcome}, queue, kind, count(*), interval '0'
    from stopped, clock
   group by 1, 3, 4
)
