-- Put the jobs in {of} (queue, priority, job, kind, attempt, ready_at, deadline_at, limits, limit_keys, holds) where they may run:
-- into the current segment of ready or, while they have a limit to pass, at the gate (segment 8). holds are limits whose permits a
-- job has kept: none of them, the first, or all.
insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at, limit_name, limit_key, next_limit, next_key)
  select p.queue, p.priority, p.job,
         case when p.limits[s.held + 1] is null then (select current from {schema}.ring order by version desc limit 1) else 8 end,
         p.kind, p.attempt, p.ready_at, p.deadline_at, p.limits[s.held + 1],
         case when p.limits[s.held + 1] is not null then coalesce(p.limit_keys[s.held + 1], '') end, p.limits[s.held + 2],
         case when p.limits[s.held + 2] is not null then coalesce(p.limit_keys[s.held + 2], '') end
    from {of} p
   cross join lateral (select coalesce(cardinality(p.holds), 0) as held) s
