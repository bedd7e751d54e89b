-- A part of settle.sql, for runs that are not settled by their worker's own attempt: leave a notice for the hooks of
-- each that was retried or has ended without success, unless every worker that knows the kind has no hook for it.
-- Only inserts, after everything that is locked; a run ends once, so that nothing can be there already.
, heard as materialized (
  select k.kind, k.outcome
    from (select distinct kind, outcome from others where outcome not in ('snoozed', 'released')) k
   where not exists (select from {schema}.worker w where w.hears is not null and k.kind = any(w.kinds))
      or exists (select from {schema}.worker w where jsonb_exists(w.hears -> k.outcome::text, k.kind))
), noticed as (
  insert into {schema}.notice
         (job, run, at, created_at, deadline_at, worker, outcome, attempt, max_attempts, priority, kind, queue, tags, origin, error)
  select e.job, e.run, clock.now, j.created_at, e.deadline_at, e.worker, e.outcome, e.attempt, j.max_attempts, j.priority,
         e.kind, e.queue, j.tags, j.origin,
         case when e.outcome = 'cancelled' and e.cancel_reason is not null
              then jsonb_build_object('message', e.cancel_reason, 'code', 'cancelled')
              else asked.errors[e.place]::jsonb end
    from clock, asked, heard h
    join ended e on e.kind = h.kind and e.outcome = h.outcome
   cross join lateral (select created_at, max_attempts, priority, tags, origin from {schema}.job where id = e.job offset 0) j
)
